// Tool call sections between literal markers.
#include "text/tool_section.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace fathom {

std::string_view trim_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool is_json(std::string_view text) {
  return nlohmann::json::accept(text.begin(), text.end());
}

size_t partial_marker(std::string_view text, std::string_view marker) {
  size_t length = std::min(text.size(), marker.size() - 1);
  while (length > 0 && !text.ends_with(marker.substr(0, length))) --length;
  return length;
}

namespace {

class DelimitedSection final : public ToolSection {
 public:
  explicit DelimitedSection(const DelimitedSyntax& syntax) : syntax_(syntax) {}

  std::string_view opening() const override { return syntax_.section_begin; }

  void begin() override {
    opened_ = false;
    shown_ = false;
    closed_ = false;
    searched_ = 0;
  }

  // Until a call was read, the opening marker stays in `text`, so that it can come out as content.
  Step step(std::string_view text, bool final) override {
    if (closed_) return {Step::Kind::kLeave};
    const size_t opening = opened_ ? 0 : syntax_.section_begin.size();
    const std::string_view rest = text.substr(opening);
    const size_t space = rest.size() - trim_left(rest).size();
    const std::string_view body = rest.substr(space);
    const auto undecided = [&](std::string_view marker) {
      return !final && body.size() < marker.size() && marker.starts_with(body);
    };
    if (body.starts_with(syntax_.call_begin)) return call(text, opening + space, final);
    if (body.starts_with(syntax_.section_end)) {
      const size_t bytes = opening + space + syntax_.section_end.size();
      closed_ = true;
      // Closes what was shown as text, or a section without any call: text, too.
      return {shown_ || !opened_ ? Step::Kind::kText : Step::Kind::kDone, bytes};
    }
    if (undecided(syntax_.call_begin) || undecided(syntax_.section_end)) return {};
    if (!opened_) return show(opening);
    return {Step::Kind::kLeave};
  }

 private:
  static std::string_view trim_left(std::string_view text) {
    return text.substr(std::min(text.find_first_not_of(" \t\n\r"), text.size()));
  }

  Step show(size_t bytes) {
    opened_ = shown_ = true;
    searched_ = 0;
    return {Step::Kind::kText, bytes};
  }

  // A call whose begin marker stands at `at`.
  Step call(std::string_view text, size_t at, bool final) {
    const size_t body = at + syntax_.call_begin.size();
    // Only what came since the last look is searched, or long arguments would cost quadratic time.
    const size_t overlap = syntax_.call_end.size();
    const size_t from = std::max(body, searched_ > overlap ? searched_ - overlap : 0);
    const size_t end = text.find(syntax_.call_end, from);
    searched_ = text.size();
    if (end == std::string_view::npos) return final ? show(text.size()) : Step{};
    const size_t bytes = end + syntax_.call_end.size();
    auto parsed = syntax_.parse_call(text.substr(body, end - body));
    if (!parsed) return show(bytes);
    opened_ = true;
    searched_ = 0;
    return {Step::Kind::kCall, bytes, std::move(*parsed)};
  }

  const DelimitedSyntax syntax_;
  bool opened_ = false;  // the opening marker is behind
  bool closed_ = false;  // the closing marker is behind
  bool shown_ = false;   // some of the section came out as content
  size_t searched_ = 0;  // bytes of text without the end of the current call
};

}  // namespace

std::unique_ptr<ToolSection> make_delimited_section(const DelimitedSyntax& syntax) {
  return std::make_unique<DelimitedSection>(syntax);
}

}  // namespace fathom
