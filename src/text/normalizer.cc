// Unicode normal forms (through utf8proc) and the smaller steps.
#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace fathom {
namespace {

constexpr int kMaxNesting = 16;
constexpr size_t kMaxInsertedBytes = 64;  // of Prepend and Replace
// A step must not make a text out of all proportion; further steps would multiply it again.
constexpr size_t kMaxGrowth = 64;
constexpr size_t kSpareBytes = 1 << 16;
constexpr uint32_t kFirstChangedByNfc =
    0x300;  // all below are their own NFC, and combine with nothing before
constexpr uint32_t kFirstChanged = 0xA0;  // all below are their own NFD, NFKC and NFKD

int combining_class(utf8proc_int32_t code) {
  return static_cast<int>(utf8proc_get_property(code)->combining_class);
}

// Sorts each run of combining marks by class. utf8proc would do it by exchanges, quadratically.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  for (size_t begin = 0; begin < codes.size();) {
    if (combining_class(codes[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + static_cast<ptrdiff_t>(begin),
                     codes.begin() + static_cast<ptrdiff_t>(end),
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

// Appends the normal form of `codes` to `text` and clears them.
void append_normal(std::vector<utf8proc_int32_t>& codes, utf8proc_option_t options,
                   std::string& text) {
  constexpr int kLongest = 32;  // the longest decomposition is 18
  std::vector<utf8proc_int32_t> parts;
  parts.reserve(codes.size() + 1);
  for (const utf8proc_int32_t code : codes) {
    utf8proc_int32_t decomposed[kLongest];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(code, decomposed, kLongest, options, &boundary);
    parts.insert(parts.end(), decomposed,
                 decomposed + std::clamp<utf8proc_ssize_t>(count, 0, kLongest));
  }
  order_marks(parts);
  const auto size =
      utf8proc_normalize_utf32(parts.data(), static_cast<utf8proc_ssize_t>(parts.size()), options);
  for (utf8proc_ssize_t i = 0; i < size; ++i) {
    append_utf8(text, static_cast<uint32_t>(parts[static_cast<size_t>(i)]));
  }
  codes.clear();
}

}  // namespace

CodePoints::CodePoints(std::string_view text) {
  codes.reserve(text.size());
  offsets.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    offsets.push_back(static_cast<uint32_t>(at));
    const Utf8Step step = decode_utf8(text.substr(at));
    codes.push_back(step.code);
    at += step.size;
  }
  offsets.push_back(static_cast<uint32_t>(text.size()));
}

Result<Regex> read_pattern(const nlohmann::json& component, const std::string& where) {
  const auto pattern = component.find("pattern");
  if (pattern != component.end() && pattern->is_object() && pattern->size() == 1) {
    const std::string kind = pattern->begin().key();
    const nlohmann::json& value = pattern->begin().value();
    if (value.is_string() && (kind == "String" || kind == "Regex")) {
      const auto& text = value.get_ref<const std::string&>();
      auto regex = kind == "String" ? Regex::compile(*regex_literal(text)) : Regex::compile(text);
      if (!regex) return error(regex.error().with_context(where + ".pattern"));
      return regex;
    }
  }
  return error(Code::kCorrupt,
               where + ".pattern is neither {\"String\": ...} nor {\"Regex\": ...}");
}

Result<Normalizer> Normalizer::read(const nlohmann::json& component) {
  Normalizer normalizer;
  if (!component.is_null()) FATHOM_TRY(normalizer.add(component, "normalizer", 0));
  return normalizer;
}

Status Normalizer::add(const nlohmann::json& component, const std::string& where, int depth) {
  FATHOM_ASSIGN_OR_STATUS(const std::string type, json_type(component, where));
  if (type == "Sequence") {
    if (depth > kMaxNesting) return {Code::kCorrupt, where + " is nested too deeply"};
    FATHOM_ASSIGN_OR_STATUS(const nlohmann::json* list,
                            json_array(component, "normalizers", where));
    for (size_t i = 0; i < list->size(); ++i) {
      FATHOM_RETURN_IF_ERROR(
          add((*list)[i], where + ".normalizers[" + std::to_string(i) + "]", depth + 1));
    }
    return {};
  }
  FATHOM_ASSIGN_OR_STATUS(Step step, read_step(component, type, where));
  steps_.push_back(std::move(step));
  return {};
}

Result<Normalizer::Step> Normalizer::read_step(const nlohmann::json& component,
                                               const std::string& type, const std::string& where) {
  if (type == "NFC") return Step{Kind::kUnicode, {true, false}};
  if (type == "NFD") return Step{Kind::kUnicode, {false, false}};
  if (type == "NFKC") return Step{Kind::kUnicode, {true, true}};
  if (type == "NFKD") return Step{Kind::kUnicode, {false, true}};
  if (type == "Lowercase") return Step{Kind::kLowercase};
  if (type == "ByteLevel") return Step{Kind::kByteLevel};
  if (type == "Prepend") {
    FATHOM_ASSIGN(std::string text, json_string(component, "prepend", where));
    if (text.size() > kMaxInsertedBytes) {
      return error(Code::kUnsupported, where + ".prepend is longer than 64 bytes");
    }
    return Step{Kind::kPrepend, {}, {}, std::move(text)};
  }
  if (type == "Strip") {
    FATHOM_ASSIGN(const bool left, json_bool(component, "strip_left", where));
    FATHOM_ASSIGN(const bool right, json_bool(component, "strip_right", where));
    return Step{Kind::kStrip, {}, {left, right}};
  }
  if (type == "Replace") {
    FATHOM_ASSIGN(Regex pattern, read_pattern(component, where));
    FATHOM_ASSIGN(std::string content, json_string(component, "content", where));
    if (content.size() > kMaxInsertedBytes) {
      return error(Code::kUnsupported, where + ".content is longer than 64 bytes");
    }
    return Step{
        Kind::kReplace, {}, {}, std::move(content), std::make_unique<Regex>(std::move(pattern))};
  }
  return error(Code::kUnsupported, where + ".type " + in_quotes(type) + " is not supported");
}

bool Normalizer::has_byte_level() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.kind == Kind::kByteLevel; });
}

Status Normalizer::apply(std::string& text) const {
  const size_t limit = text.size() * kMaxGrowth + kSpareBytes;
  for (const Step& step : steps_) {
    if (text.empty()) return {};
    if (text.size() > limit) {
      return {Code::kCorrupt,
              "the normalizer of tokenizer.json makes this text more than 64 times longer"};
    }
    switch (step.kind) {
      case Kind::kUnicode:
        normalize(step.form, text);
        break;
      case Kind::kLowercase:
        lowercase(text);
        break;
      case Kind::kByteLevel:
        text = to_byte_letters(text);
        break;
      case Kind::kPrepend:
        text.insert(0, step.text);
        break;
      case Kind::kStrip:
        strip(step.sides, text);
        break;
      case Kind::kReplace:
        FATHOM_RETURN_IF_ERROR(replace(step, text));
        break;
    }
  }
  return {};
}

void Normalizer::normalize(const Unicode& form, std::string& text) {
  const CodePoints in(text);
  const uint32_t unchanged = form.compose && !form.compatible ? kFirstChangedByNfc : kFirstChanged;
  if (std::all_of(in.codes.begin(), in.codes.end(), [&](uint32_t c) { return c < unchanged; }))
    return;
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (form.compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
      (form.compatible ? UTF8PROC_COMPAT : 0));
  text.clear();
  std::vector<utf8proc_int32_t> known;  // a run of what the normal forms know
  for (const uint32_t code : in.codes) {
    if (normalizing_set().contains(code)) {
      known.push_back(static_cast<utf8proc_int32_t>(code));
    } else {
      append_normal(known, options, text);
      append_utf8(text, code);
    }
  }
  append_normal(known, options, text);
}

void Normalizer::lowercase(std::string& text) {
  std::string lower;
  lower.reserve(text.size());
  for (const uint32_t code : CodePoints(text).codes) {
    if (code == 0x130) {  // the one lower case of two characters: i and a dot above
      lower += "i\xCC\x87";
    } else {
      append_utf8(lower,
                  static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    }
  }
  text = std::move(lower);
}

void Normalizer::strip(const Strip& sides, std::string& text) {
  const CodePoints in(text);
  size_t begin = 0;
  size_t end = in.count();
  while (sides.left && begin < end && white_space_set().contains(in.codes[begin])) ++begin;
  while (sides.right && begin < end && white_space_set().contains(in.codes[end - 1])) --end;
  text = text.substr(in.offsets[begin], in.offsets[end] - in.offsets[begin]);
}

Status Normalizer::replace(const Step& step, std::string& text) {
  const CodePoints in(text);
  std::vector<uint8_t> classes(in.count());
  step.pattern->classify(in.codes.data(), in.count(), classes.data());
  Regex::Scratch scratch;
  std::vector<Regex::Match> matches;
  FATHOM_RETURN_IF_ERROR(step.pattern->find_all(classes.data(), 0, in.count(), scratch, matches));
  std::string out;
  size_t at = 0;
  for (const Regex::Match& match : matches) {
    out.append(text, in.offsets[at], in.offsets[match.begin] - in.offsets[at]).append(step.text);
    at = match.end;
  }
  out.append(text, in.offsets[at]);
  text = std::move(out);
  return {};
}

}  // namespace fathom
