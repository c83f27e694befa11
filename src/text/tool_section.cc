// What tool call sections have in common, and calls between literal markers.
#include "text/tool_section.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

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

class Section final : public ToolSection {
 public:
  Section(const SectionMarkers& markers, std::unique_ptr<CallReader> reader)
      : markers_(markers), reader_(std::move(reader)) {}

  std::string_view opening() const override { return markers_.begin; }
  std::string_view lead() const override { return markers_.lead; }

  void begin(size_t opening_bytes) override {
    opening_ = opening_bytes;
    shown_ = false;
    closed_ = false;
    reader_->reset();
  }

  // Until a call was read, the opening marker stays in `text`, so that it can come out as content.
  Step step(std::string_view text, bool final) override {
    if (closed_) return {Step::Kind::kLeave};
    const std::string_view rest = text.substr(opening_);
    const size_t space = rest.size() - trim_left(rest).size();
    const std::string_view body = rest.substr(space);
    const auto undecided = [&](std::string_view marker) {
      return !final && body.size() < marker.size() && marker.starts_with(body);
    };
    if (body.starts_with(markers_.call_begin)) return call(text, opening_ + space, final);
    if (body.starts_with(markers_.end)) {
      const size_t bytes = opening_ + space + markers_.end.size();
      closed_ = true;
      // Closes what was shown as text, or a section without any call: text, too.
      return {shown_ || opening_ > 0 ? Step::Kind::kText : Step::Kind::kDone, bytes};
    }
    if (undecided(markers_.call_begin) || undecided(markers_.end)) return {};
    if (opening_ > 0) return show(opening_);
    return {Step::Kind::kLeave};
  }

 private:
  static std::string_view trim_left(std::string_view text) {
    return text.substr(std::min(text.find_first_not_of(" \t\n\r"), text.size()));
  }

  Step show(size_t bytes) {
    opening_ = 0;
    shown_ = true;
    reader_->reset();
    return {Step::Kind::kText, bytes};
  }

  Step call(std::string_view text, size_t at, bool final) {
    using Kind = CallReader::Scan::Kind;
    CallReader::Scan scan = reader_->scan(text, at, final);
    if (scan.kind == Kind::kMore) return {};
    if (scan.kind == Kind::kMalformed) return show(scan.end);
    opening_ = 0;
    reader_->reset();
    return {Step::Kind::kCall, scan.end, std::move(scan.call)};
  }

  const SectionMarkers markers_;
  std::unique_ptr<CallReader> reader_;
  size_t opening_ = 0;   // bytes of the opening that are still in the text
  bool closed_ = false;  // the closing marker is behind
  bool shown_ = false;   // some of the section came out as content
};

class DelimitedReader final : public CallReader {
 public:
  explicit DelimitedReader(const DelimitedSyntax& syntax) : syntax_(syntax) {}

  void reset() override { searched_ = 0; }

  Scan scan(std::string_view text, size_t at, bool final) override {
    const size_t body = at + syntax_.call_begin.size();
    const size_t overlap = syntax_.call_end.size();
    const size_t from = std::max(body, searched_ > overlap ? searched_ - overlap : 0);
    const size_t end = text.find(syntax_.call_end, from);
    searched_ = text.size();
    if (end == std::string_view::npos) {
      return final ? Scan{Scan::Kind::kMalformed, text.size()} : Scan{};
    }
    auto parsed = syntax_.parse_call(text.substr(body, end - body));
    const size_t behind = end + syntax_.call_end.size();
    if (!parsed) return {Scan::Kind::kMalformed, behind};
    return {Scan::Kind::kCall, behind, std::move(*parsed)};
  }

 private:
  const DelimitedSyntax syntax_;
  size_t searched_ = 0;  // bytes of text without the end of the current call
};

}  // namespace

std::unique_ptr<ToolSection> make_section(const SectionMarkers& markers,
                                          std::unique_ptr<CallReader> reader) {
  return std::make_unique<Section>(markers, std::move(reader));
}

std::unique_ptr<ToolSection> make_delimited_section(const DelimitedSyntax& syntax) {
  return make_section({"", syntax.section_begin, syntax.section_end, syntax.call_begin},
                      std::make_unique<DelimitedReader>(syntax));
}

}  // namespace fathom
