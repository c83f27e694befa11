// Tool calls as V3.2, V4 and V4.1 write them: DSML mark-up.
#include <algorithm>
#include <unordered_set>

#include "text/tool_section.h"

namespace fathom {

namespace {

constexpr std::string_view kSpace = " \t\n\r";

// A JSON string of these bytes; what is no UTF-8 stays as it is and makes the whole invalid.
void append_json_string(std::string_view text, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->append({'\\', c});
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\t') {
      out->append("\\t");
    } else if (c == '\r') {
      out->append("\\r");
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out->append({'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]});
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

// Reads one invoke element, parameter by parameter: a raw value may contain any other tag.
class DsmlReader final : public CallReader {
 public:
  explicit DsmlReader(const DsmlSyntax& syntax) : syntax_(syntax) {}

  void reset() override {
    at_ = searched_ = 0;
    started_ = broken_ = false;
    name_.clear();
    arguments_.clear();
    keys_.clear();
  }

  Scan scan(std::string_view text, size_t at, bool final) override {
    if (at_ == 0) at_ = at + syntax_.invoke_begin.size();
    Progress progress = broken_ ? Progress::kBroken : Progress::kOn;
    while (progress == Progress::kOn) progress = step(text);
    if (progress == Progress::kDone) {
      std::string arguments = "{" + arguments_ + "}";
      if (is_json(arguments)) return {Scan::Kind::kCall, at_, {name_, std::move(arguments)}};
      return {Scan::Kind::kMalformed, at_};
    }
    if (progress == Progress::kBroken) {
      broken_ = true;
      const size_t end = find(text, syntax_.invoke_end);
      if (end != std::string_view::npos) {
        return {Scan::Kind::kMalformed, end + syntax_.invoke_end.size()};
      }
    }
    return final ? Scan{Scan::Kind::kMalformed, text.size()} : Scan{};
  }

 private:
  enum class Progress { kOn, kWait, kDone, kBroken };

  // Finds a marker behind at_, looking only at what came since the last look.
  size_t find(std::string_view text, std::string_view marker) {
    const size_t overlap = marker.size();
    const size_t from = std::max(at_, searched_ > overlap ? searched_ - overlap : 0);
    const size_t found = text.find(marker, from);
    searched_ = found == std::string_view::npos ? text.size() : 0;
    return found;
  }

  Progress step(std::string_view text) {
    if (!started_) return head(text);
    const size_t begin = std::min(text.find_first_not_of(kSpace, at_), text.size());
    const std::string_view rest = text.substr(begin);
    if (rest.starts_with(syntax_.invoke_end)) {
      at_ = begin + syntax_.invoke_end.size();
      return Progress::kDone;
    }
    if (rest.starts_with(syntax_.parameter_begin)) return parameter(text, begin);
    const bool undecided =
        syntax_.invoke_end.starts_with(rest) || syntax_.parameter_begin.starts_with(rest);
    return undecided ? Progress::kWait : Progress::kBroken;
  }

  // The name and the end of the opening tag.
  Progress head(std::string_view text) {
    const size_t quote = text.find_first_of("\"<\n", at_);
    if (quote == std::string_view::npos || quote + 1 == text.size()) return Progress::kWait;
    if (text[quote] != '"' || text[quote + 1] != '>' || quote == at_) return Progress::kBroken;
    name_ = text.substr(at_, quote - at_);
    at_ = quote + 2;
    started_ = true;
    return Progress::kOn;
  }

  Progress parameter(std::string_view text, size_t begin) {
    const size_t key = begin + syntax_.parameter_begin.size();
    const size_t quote = text.find_first_of("\"\n", key);
    if (quote == std::string_view::npos) return Progress::kWait;
    if (text[quote] != '"') return Progress::kBroken;
    const std::string_view rest = text.substr(quote);
    for (const bool raw : {true, false}) {
      const std::string_view attribute = raw ? "\" string=\"true\">" : "\" string=\"false\">";
      if (rest.size() < attribute.size() && attribute.starts_with(rest)) return Progress::kWait;
      if (!rest.starts_with(attribute)) continue;
      const size_t value = quote + attribute.size();
      searched_ = std::max(searched_, value);
      const size_t end = find(text, syntax_.parameter_end);
      if (end == std::string_view::npos) return Progress::kWait;
      at_ = end + syntax_.parameter_end.size();
      return add(text.substr(key, quote - key), text.substr(value, end - value), raw)
                 ? Progress::kOn
                 : Progress::kBroken;
    }
    return Progress::kBroken;
  }

  bool add(std::string_view key, std::string_view value, bool raw) {
    if (!keys_.emplace(key).second) return false;
    if (!arguments_.empty()) arguments_ += ", ";
    append_json_string(key, &arguments_);
    arguments_ += ": ";
    if (raw) {
      append_json_string(value, &arguments_);
      return true;
    }
    arguments_ += trim_space(value);
    return is_json(value);
  }

  const DsmlSyntax syntax_;
  size_t at_ = 0;         // of the text, read so far; 0 = nothing
  size_t searched_ = 0;   // bytes of text without the marker that is looked for
  bool started_ = false;  // the opening tag is read
  bool broken_ = false;   // no call: only its end is looked for
  std::string name_;
  std::string arguments_;  // members of the object
  std::unordered_set<std::string> keys_;
};

}  // namespace

std::unique_ptr<ToolSection> make_dsml_section(const DsmlSyntax& syntax) {
  return make_section({"\n\n", syntax.section_begin, syntax.section_end, syntax.invoke_begin},
                      std::make_unique<DsmlReader>(syntax));
}

const DsmlSyntax& dsml_syntax(ToolFormat format) {
  static constexpr DsmlSyntax kV32 = {"<｜DSML｜function_calls>",   "</｜DSML｜function_calls>",
                                      "<｜DSML｜invoke name=\"",    "</｜DSML｜invoke>",
                                      "<｜DSML｜parameter name=\"", "</｜DSML｜parameter>"};
  static constexpr DsmlSyntax kV4 = {"<｜DSML｜tool_calls>",       "</｜DSML｜tool_calls>",
                                     "<｜DSML｜invoke name=\"",    "</｜DSML｜invoke>",
                                     "<｜DSML｜parameter name=\"", "</｜DSML｜parameter>"};
  static constexpr DsmlSyntax kV41 = {
      "<｜DSML｜ calls>",   "</｜DSML｜ calls>",           "<｜DSML｜ invoke name=\"",
      "</｜DSML｜ invoke>", "<｜DSML｜ parameter name=\"", "</｜DSML｜ parameter>"};
  if (format == ToolFormat::kDeepSeekV32) return kV32;
  return format == ToolFormat::kDeepSeekV4 ? kV4 : kV41;
}

}  // namespace fathom
