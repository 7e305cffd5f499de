#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "loopwright/runtime.h"
#include "loopwright/runtime_c.h"

struct loopwright_runtime {
  loopwright::Runtime runtime;
};
struct loopwright_plan {
  loopwright::Plan plan;
  std::int32_t given;
};

namespace {

using loopwright::Error;
using loopwright::ErrorCode;

thread_local std::string last_message;
/// More than any plan has: a rank above it was never set.
constexpr std::int32_t kMostDimensions = 64;

/// Even the message may not fit in memory; then there is none.
std::int32_t fail(ErrorCode code, const char* text) noexcept {
  try {
    last_message = text;
  } catch (...) {
    last_message.clear();
  }
  return static_cast<std::int32_t>(code);
}

std::int32_t fail(const Error& error) { return fail(error.code, error.message().c_str()); }

std::int32_t refuse(const char* asked, const char* found) {
  return fail(Error{ErrorCode::wrong_arguments, asked, found, "", "see loopwright/runtime_c.h"});
}

/// Runs `body`, which returns an error number, and lets nothing out.
template <class Body>
std::int32_t guard(Body&& body) noexcept {
  try {
    last_message.clear();
    return body();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "out_of_memory: no memory for a small object");
  } catch (const std::exception& e) {
    return fail(ErrorCode::bug, e.what());
  } catch (...) {
    return fail(ErrorCode::bug, "bug: an exception of unknown type");
  }
}

/// Options of a caller with an older header end earlier.
loopwright_options read_options(const loopwright_options& given) {
  loopwright_options options{};
  options.on_miss = LOOPWRIGHT_FALLBACK;
  std::memcpy(&options, &given, std::min(given.size, sizeof options));
  return options;
}

loopwright::TensorView view_of(const loopwright_tensor& tensor) {
  loopwright::TensorView view;
  view.data = tensor.data;
  view.dtype = static_cast<loopwright::DType>(tensor.dtype);
  view.shape = {tensor.shape, static_cast<std::size_t>(tensor.rank)};
  if (tensor.strides != nullptr) view.strides = {tensor.strides, static_cast<std::size_t>(tensor.rank)};
  return view;
}

}  // namespace

extern "C" {

int32_t loopwright_c_version(void) { return LOOPWRIGHT_C_VERSION; }
const char* loopwright_version(void) { return LOOPWRIGHT_VERSION; }
const char* loopwright_last_error(void) { return last_message.c_str(); }

const char* loopwright_error_name(int32_t code) {
  try {
    return loopwright::name(static_cast<ErrorCode>(code)).data();  // a literal, so that it ends with a zero
  } catch (...) {
    return "unknown";
  }
}

int32_t loopwright_open(const loopwright_options* options, loopwright_runtime** runtime) {
  return guard([&]() -> std::int32_t {
    if (runtime == nullptr) return refuse("open a runtime", "a null out-parameter");
    *runtime = nullptr;
    loopwright::RuntimeOptions asked;
    if (options != nullptr) {
      if (options->size < sizeof options->size) return refuse("open a runtime", "options whose size is not sizeof(loopwright_options)");
      const loopwright_options given = read_options(*options);
      if (given.database_count < 0 || (given.database_count > 0 && given.databases == nullptr))
        return refuse("open a runtime", "a list of databases that is null or of negative length");
      if (given.on_miss < LOOPWRIGHT_STRICT || given.on_miss > LOOPWRIGHT_JIT)
        return refuse("open a runtime", "an unknown on_miss");
      for (std::int32_t i = 0; i < given.database_count; ++i) {
        if (given.databases[i] == nullptr) return refuse("open a runtime", "a null database path");
        asked.databases.emplace_back(given.databases[i]);
      }
      asked.on_miss = static_cast<loopwright::OnMiss>(given.on_miss);
      asked.workers = given.workers;
      if (given.device != nullptr) asked.device = given.device;
    }
    auto opened = loopwright::Runtime::open(std::move(asked));
    if (!opened.ok()) return fail(opened.error());
    *runtime = new loopwright_runtime{std::move(opened).value()};
    return LOOPWRIGHT_OK;
  });
}

void loopwright_close(loopwright_runtime* runtime) {
  guard([&]() -> std::int32_t {
    delete runtime;
    return LOOPWRIGHT_OK;
  });
}

const char* loopwright_note(const loopwright_runtime* runtime, int32_t index) {
  if (runtime == nullptr || index < 0) return nullptr;
  const auto& notes = runtime->runtime.notes();
  return static_cast<std::size_t>(index) < notes.size() ? notes[static_cast<std::size_t>(index)].c_str()
                                                        : nullptr;
}

int32_t loopwright_flush_wanted(const loopwright_runtime* runtime) {
  return guard([&]() -> std::int32_t {
    if (runtime == nullptr) return refuse("write wanted sizes", "a null runtime");
    const auto written = runtime->runtime.flush_wanted();
    return written.ok() ? LOOPWRIGHT_OK : fail(written.error());
  });
}

int32_t loopwright_reload(const loopwright_runtime* runtime) {
  return guard([&]() -> std::int32_t {
    if (runtime == nullptr) return refuse("reload the databases", "a null runtime");
    const auto reloaded = runtime->runtime.reload();
    return reloaded.ok() ? LOOPWRIGHT_OK : fail(reloaded.error());
  });
}

int32_t loopwright_make_plan(const loopwright_runtime* runtime, const char* name_or_digest,
                             loopwright_plan** plan) {
  return guard([&]() -> std::int32_t {
    if (runtime == nullptr || name_or_digest == nullptr || plan == nullptr)
      return refuse("make a plan", "a null argument");
    *plan = nullptr;
    auto made = runtime->runtime.plan(name_or_digest);
    if (!made.ok()) return fail(made.error());
    const auto& tensors = made->spec().tensors;
    const auto given = std::count_if(tensors.begin(), tensors.end(),
                                     [](const auto& t) { return t.role != loopwright::ArgRole::workspace; });
    *plan = new loopwright_plan{std::move(made).value(), static_cast<std::int32_t>(given)};
    return LOOPWRIGHT_OK;
  });
}

void loopwright_free_plan(loopwright_plan* plan) {
  guard([&]() -> std::int32_t {
    delete plan;
    return LOOPWRIGHT_OK;
  });
}

int32_t loopwright_tensor_count(const loopwright_plan* plan) { return plan == nullptr ? -1 : plan->given; }

int32_t loopwright_symbol_count(const loopwright_plan* plan) {
  return plan == nullptr ? -1 : static_cast<std::int32_t>(plan->plan.spec().symbols.size());
}

int32_t loopwright_describe_tensor(const loopwright_plan* plan, int32_t index, loopwright_tensor_info* info) {
  return guard([&]() -> std::int32_t {
    if (plan == nullptr || info == nullptr) return refuse("describe a tensor", "a null argument");
    if (index < 0 || index >= plan->given)
      return refuse("describe a tensor", "an index outside the plan's tensors");
    const auto& tensor = plan->plan.spec().tensors[static_cast<std::size_t>(index)];
    *info = {tensor.name.c_str(), static_cast<std::int32_t>(tensor.shape.size()),
             static_cast<std::int32_t>(tensor.dtype), static_cast<std::int32_t>(tensor.role)};
    return LOOPWRIGHT_OK;
  });
}

int32_t loopwright_describe_symbol(const loopwright_plan* plan, int32_t index, loopwright_symbol_info* info) {
  return guard([&]() -> std::int32_t {
    if (plan == nullptr || info == nullptr) return refuse("describe a symbol", "a null argument");
    const auto& symbols = plan->plan.spec().symbols;
    if (index < 0 || static_cast<std::size_t>(index) >= symbols.size())
      return refuse("describe a symbol", "an index outside the plan's symbols");
    const auto& symbol = symbols[static_cast<std::size_t>(index)];
    *info = {symbol.name.c_str(), symbol.lo, symbol.hi};
    return LOOPWRIGHT_OK;
  });
}

int32_t loopwright_run_on(const loopwright_plan* plan, const loopwright_tensor* tensors, int32_t count,
                          void* stream) {
  return guard([&]() -> std::int32_t {
    if (plan == nullptr || count < 0 || (count > 0 && tensors == nullptr))
      return refuse("run a plan", "a null argument or a negative count");
    if (count != plan->given)  // then none is read: who knows how many there are
      return fail(Error{ErrorCode::wrong_arguments, "run the plan " + plan->plan.spec().name, std::to_string(count) + " tensors", "",
                        std::to_string(plan->given) + ", as loopwright_describe_tensor lists them"});
    std::vector<loopwright::TensorView> views;
    for (std::int32_t i = 0; i < count; ++i) {
      const loopwright_tensor& tensor = tensors[i];
      if (tensor.rank < 0 || tensor.rank > kMostDimensions || (tensor.rank > 0 && tensor.shape == nullptr))
        return refuse("run a plan", "a tensor with a null shape, or of a rank below 0 or above 64");
      if (tensor.dtype < 0 || tensor.dtype >= loopwright::kDTypeCount)
        return refuse("run a plan", "a tensor with an unknown dtype");
      views.push_back(view_of(tensor));
    }
    const auto ran = plan->plan.run(views, stream);
    return ran.ok() ? LOOPWRIGHT_OK : fail(ran.error());
  });
}

int32_t loopwright_run(const loopwright_plan* plan, const loopwright_tensor* tensors, int32_t count) {
  return loopwright_run_on(plan, tensors, count, nullptr);
}

int32_t loopwright_launch_on(const loopwright_plan* plan, void* const* pointers, const int64_t* symbols,
                             void* stream) {
  if (plan == nullptr) return static_cast<std::int32_t>(ErrorCode::wrong_arguments);
  return static_cast<std::int32_t>(plan->plan.launch(pointers, symbols, stream));
}

int32_t loopwright_launch_graph(const loopwright_plan* plan, void* const* pointers, const int64_t* symbols,
                                void* stream) {
  if (plan == nullptr) return static_cast<std::int32_t>(ErrorCode::wrong_arguments);
  return static_cast<std::int32_t>(plan->plan.launch_graph(pointers, symbols, stream));
}

int32_t loopwright_launch(const loopwright_plan* plan, void* const* pointers, const int64_t* symbols) {
  return loopwright_launch_on(plan, pointers, symbols, nullptr);
}

int32_t loopwright_explain(const loopwright_plan* plan, const int64_t* symbols, int32_t count, char** text) {
  return guard([&]() -> std::int32_t {
    if (plan == nullptr || text == nullptr || count < 0 || (count > 0 && symbols == nullptr))
      return refuse("explain a plan", "a null argument");
    *text = nullptr;
    const auto answer = plan->plan.explain({symbols, static_cast<std::size_t>(count)});
    if (!answer.ok()) return fail(answer.error());
    *text = static_cast<char*>(std::malloc(answer->size() + 1));
    if (*text == nullptr) throw std::bad_alloc();
    std::memcpy(*text, answer->c_str(), answer->size() + 1);
    return LOOPWRIGHT_OK;
  });
}

void loopwright_free_text(char* text) { std::free(text); }

}  // extern "C"
