#include "src/schedule/trace.h"

#include <functional>

namespace loopwright::schedule {

namespace {

Error bad_trace(int line, std::string found, std::string where, std::string works) {
  return {ErrorCode::bad_trace, "replay a trace", "line " + std::to_string(line) + ": " + std::move(found),
          std::move(where), std::move(works)};
}

/// Reads the fields of the step whose verb is `verb`; empty when no step has it.
template <std::size_t I = 0>
std::optional<Step> read_step(const std::string& verb, FieldReader& fields) {
  if constexpr (I == std::variant_size_v<Step>) {
    return std::nullopt;
  } else {
    using S = std::variant_alternative_t<I, Step>;
    if (verb != S::kVerb) return read_step<I + 1>(verb, fields);
    S step;
    S::fields(step, fields);
    return step;
  }
}

template <std::size_t... I>
std::string all_verbs(std::index_sequence<I...>) {
  std::string out;
  ((out += (I ? ", " : "") + std::string(std::variant_alternative_t<I, Step>::kVerb)), ...);
  return out;
}

Status read_version(text::Reader& reader) {
  if (!reader.at("trace") || reader.peek(1).kind != text::TokenKind::integer)
    return Error{ErrorCode::trace_version,
                 "replay a trace",
                 "the text does not begin with `trace` and a version",
                 {},
                 "a trace of version " + std::to_string(kTraceVersion)};
  reader.next();
  const text::Token version = reader.next();
  if (version.integer != static_cast<std::uint64_t>(kTraceVersion))
    return Error{ErrorCode::trace_version, "replay a trace",
                 "it was made by version " + version.text + " of the steps, this is version " +
                     std::to_string(kTraceVersion),
                 "line 1", "tune the workload again, or replay with the generator that made it"};
  return reader.expect_line_end("the version of a trace");
}

/// As bad_trace, with the message of the reader as the reason.
Error as_bad_trace(int line, const Error& e) {
  return {ErrorCode::bad_trace, e.asked.empty() ? "replay a trace" : e.asked,
          "line " + std::to_string(line) + ": " + e.found, e.where, e.works};
}

Result<TracedStep> read_line(text::Reader& reader) {
  LW_TRY(const std::string verb, reader.expect_identifier("a step of a trace"));
  FieldReader fields(reader, "the step `" + verb + "` of a trace");
  const auto step = read_step(verb, fields);
  if (!step)
    return Error{ErrorCode::bad_trace,
                 "read a step of a trace",
                 "there is no step `" + verb + "`",
                 {},
                 "one of " + all_verbs(std::make_index_sequence<std::variant_size_v<Step>>())};
  LW_CHECK(fields.status());
  TracedStep out{*step, {}};
  if (reader.accept("->"))
    while (!reader.at_newline() && !reader.at_end()) {
      LW_TRY(std::string name, reader.expect_identifier("the loops that a step made"));
      out.made.push_back(std::move(name));
    }
  LW_CHECK(reader.expect_line_end("a step of a trace"));
  return out;
}

}  // namespace

std::string text(const Step& step) {
  return std::visit(
      [](const auto& s) {
        FieldWriter fields;
        fields.word(s.kVerb);
        s.fields(s, fields);
        return fields.take();
      },
      step);
}

std::string text(const TracedStep& step) {
  std::string out = text(step.step);
  if (!step.made.empty()) out += " -> " + text::join(step.made, " ");
  return out;
}

std::string print_trace(const std::vector<TracedStep>& steps) {
  std::string out = "trace " + std::to_string(kTraceVersion) + "\n";
  for (const TracedStep& s : steps) out += text(s) + "\n";
  return out;
}

Result<std::vector<TracedStep>> parse_trace(std::string_view text) {
  auto reader = text::Reader::read(text, "trace");
  if (!reader.ok()) {
    Error e = reader.error();  // its place says the line
    e.code = ErrorCode::bad_trace;
    return e;
  }
  LW_CHECK(read_version(*reader));
  std::vector<TracedStep> out;
  while (!reader->at_end()) {
    const int line = reader->peek().line;
    auto step = read_line(*reader);
    if (!step.ok()) return as_bad_trace(line, step.error());
    out.push_back(std::move(*step));
  }
  return out;
}

Result<Applied> apply_step(const ir::Kernel& k, const Step& step) {
  auto applied = std::visit([&](const auto& s) -> Result<Applied> { return apply(k, s); }, step);
  if (applied.ok()) {
    applied->kernel.level = ir::Level::scheduled;
    return applied;
  }
  Error e = applied.error();
  if (e.asked.empty()) e.asked = text(step);
  return e;
}

Result<ir::Kernel> replay(const ir::Kernel& naive, const std::vector<TracedStep>& steps) {
  ir::Kernel k = naive;
  k.level = ir::Level::scheduled;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const int line = static_cast<int>(i) + 2;  // the version is line 1
    auto applied = apply_step(k, steps[i].step);
    if (!applied.ok()) {
      const Error& e = applied.error();
      return bad_trace(line, std::string(name(e.code)) + ": " + e.asked + ": " + e.found, e.where, e.works);
    }
    if (!steps[i].made.empty() && applied->made != steps[i].made)
      return bad_trace(line,
                       "`" + text(steps[i].step) + "` makes " + text::join(applied->made, " ") + ", not " +
                           text::join(steps[i].made, " "),
                       {}, "the kernel that the trace was made for");
    k = std::move(applied->kernel);
  }
  return k;
}

Result<ir::Kernel> replay(const ir::Kernel& naive, std::string_view trace) {
  LW_TRY(const auto steps, parse_trace(trace));
  return replay(naive, steps);
}

}  // namespace loopwright::schedule
