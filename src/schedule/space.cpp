#include <algorithm>

#include "loopwright/schedule.h"
#include "src/support/text.h"

namespace loopwright {

namespace {

/// splitmix64: every seed gives a good sequence, and the same one on every machine.
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ull;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

std::string print_picks(const Picks& picks) {
  std::string out;
  for (const Pick& p : picks) out += (out.empty() ? "" : " ") + p.name + "=" + std::to_string(p.value);
  return out;
}

Result<Picks> parse_picks(std::string_view source) {
  LW_TRY(text::Reader reader, text::Reader::read(source, "picks", false));
  Picks out;
  while (!reader.at_end()) {
    Pick pick;
    LW_TRY(pick.name, reader.expect_identifier("a pick"));
    LW_CHECK(reader.expect("=", "a pick"));
    LW_TRY(pick.value, reader.expect_integer("the value of a pick"));
    const bool twice =
        std::any_of(out.begin(), out.end(), [&](const Pick& p) { return p.name == pick.name; });
    if (twice)
      return Error{ErrorCode::duplicate_name,
                   "read picks",
                   "`" + pick.name + "` has two values",
                   {},
                   "one value a pick"};
    out.push_back(std::move(pick));
    if (reader.at_newline()) reader.next();
  }
  return out;
}

Space::Space() = default;
Space::Space(Picks chosen) : chosen_(std::move(chosen)) {}
Space::Space(std::uint64_t seed, Picks kept) : chosen_(std::move(kept)), random_(true), state_(seed) {}

std::int64_t Space::pick(const std::string& name, const std::vector<std::int64_t>& domain) {
  LW_BUG_IF(domain.empty(), "pick " + name + " has no values");
  for (const Choice& c : choices_) {
    if (c.pick.name != name) continue;
    LW_BUG_IF(c.domain != domain, "pick " + name + " is asked for twice with different values");
    return c.pick.value;
  }
  std::int64_t value = domain.front();
  const auto chosen =
      std::find_if(chosen_.begin(), chosen_.end(), [&](const Pick& p) { return p.name == name; });
  const bool known =
      chosen != chosen_.end() && std::find(domain.begin(), domain.end(), chosen->value) != domain.end();
  if (known) value = chosen->value;
  else if (random_) value = domain[next_random(state_) % domain.size()];
  choices_.push_back({{name, value}, domain});
  return value;
}

bool Space::pick_flag(const std::string& name, bool first) {
  return pick(name, first ? std::vector<std::int64_t>{1, 0} : std::vector<std::int64_t>{0, 1}) != 0;
}

Picks Space::picks() const {
  Picks out;
  for (const Choice& c : choices_) out.push_back(c.pick);
  return out;
}

}  // namespace loopwright
