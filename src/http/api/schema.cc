// Checks values against their forms, and prints the forms.
#include "http/api/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fathom::api {

namespace {

std::string joined(const std::vector<std::string>& texts, const char* quote) {
  std::string out;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out += i + 1 == texts.size() ? " or " : ", ";
    out += quote + texts[i] + quote;
  }
  return out;
}

std::string child_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

std::string named(const std::string& path) {
  return path.empty() ? "The body" : path;
}

// Values in messages are cut: a client's text may be long.
std::string shown(const Json& value) {
  constexpr size_t kMost = 40;
  std::string text = dump(value);
  if (text.size() > kMost) {
    size_t end = kMost;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end) + "...";
  }
  return text;
}

constexpr double kFits = 2147483647.0;  // maxima from here on only say that the type holds it

std::string number_text(double value) {
  return std::fabs(value) < 1e15 && value == std::floor(value)
             ? fmt::format("{}", static_cast<int64_t>(value))
             : fmt::format("{}", value);
}

}  // namespace

Schema::Schema(Kind kind) : kind_(kind) {}

Schema Schema::any() {
  return Schema(Kind::kAny);
}
Schema Schema::boolean() {
  return Schema(Kind::kBoolean);
}
Schema Schema::string() {
  return Schema(Kind::kString);
}
Schema Schema::integer(double least, double most) {
  Schema schema(Kind::kInteger);
  schema.least_ = least;
  schema.most_ = most;
  return schema;
}
Schema Schema::number(double least, double most) {
  Schema schema = integer(least, most);
  schema.kind_ = Kind::kNumber;
  return schema;
}
Schema Schema::one_of_texts(std::vector<std::string> texts) {
  Schema schema(Kind::kString);
  schema.texts_ = std::move(texts);
  return schema;
}
Schema Schema::array(Schema items, size_t least, size_t most) {
  Schema schema(Kind::kArray);
  schema.parts_.push_back(std::move(items));
  schema.least_items_ = least;
  schema.most_items_ = most;
  return schema;
}
Schema Schema::object(std::vector<Field> fields) {
  Schema schema(Kind::kObject);
  schema.fields_ = std::move(fields);
  return schema;
}
Schema Schema::map(Schema values) {
  Schema schema(Kind::kMap);
  schema.parts_.push_back(std::move(values));
  return schema;
}
Schema Schema::any_of(std::vector<Schema> alternatives) {
  Schema schema(Kind::kAnyOf);
  schema.parts_ = std::move(alternatives);
  return schema;
}
Schema Schema::refused(std::string why) {
  Schema schema(Kind::kRefused);
  schema.description_ = std::move(why);
  return schema;
}
Schema Schema::tagged(std::string tag, std::vector<std::pair<std::string, Schema>> alternatives) {
  Schema schema(Kind::kTagged);
  schema.tag_ = std::move(tag);
  for (auto& [text, alternative] : alternatives) {
    schema.texts_.push_back(text);
    schema.parts_.push_back(std::move(alternative));
  }
  return schema;
}

Schema& Schema::above(double bound) {
  least_ = bound;
  least_excluded_ = true;
  return *this;
}
Schema& Schema::about(std::string text) {
  description_ = std::move(text);
  return *this;
}
Schema& Schema::nonempty() {
  nonempty_ = true;
  return *this;
}
Schema& Schema::open() {
  open_ = true;
  return *this;
}
Schema& Schema::or_null() {
  nullable_ = true;
  return *this;
}
Schema& Schema::otherwise(std::string hint) {
  hint_ = std::move(hint);
  return *this;
}

bool Schema::accepts_type(const Json& value) const {
  if (nullable_ && value.is_null()) return true;
  switch (kind_) {
    case Kind::kAny:
      return true;
    case Kind::kBoolean:
      return value.is_boolean();
    case Kind::kInteger:  // JSON Schema counts 2.0 as an integer
      return value.is_number_integer() ||
             (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()) &&
              std::fabs(value.get<double>()) <= 0x1p53);
    case Kind::kNumber:
      return value.is_number();
    case Kind::kString:
      return value.is_string();
    case Kind::kArray:
      return value.is_array();
    case Kind::kObject:
    case Kind::kMap:
    case Kind::kTagged:
      return value.is_object();
    case Kind::kRefused:
      return value.is_null();
    case Kind::kAnyOf:
      return std::any_of(parts_.begin(), parts_.end(),
                         [&](const Schema& part) { return part.accepts_type(value); });
  }
  return false;
}

ApiResult<void> Schema::check(const Json& value, const std::string& path,
                              std::vector<std::string>* unknown) const {
  if (kind_ == Kind::kRefused && !value.is_null()) return fail(path, description_);
  if (!accepts_type(value)) {
    const bool whole_but_huge = kind_ == Kind::kInteger && value.is_number_float() &&
                                std::fabs(value.get<double>()) > 0x1p53;
    return fail(path, fmt::format("{} must be {}, not {}.", named(path), expectation(),
                                  whole_but_huge ? "a number of that size" : type_in_words(value)));
  }
  if (value.is_null()) return {};
  switch (kind_) {
    case Kind::kAny:
    case Kind::kRefused:
    case Kind::kBoolean:
      return {};
    case Kind::kInteger:
    case Kind::kNumber:
      return check_number(value, path);
    case Kind::kString:
      return check_string(value, path);
    case Kind::kArray:
      return check_array(value, path, unknown);
    case Kind::kObject:
      return check_object(value, path, unknown);
    case Kind::kMap:
      for (const auto& [key, element] : value.items()) {
        FATHOM_API_TRY(parts_[0].check(element, child_path(path, key), unknown));
      }
      return {};
    case Kind::kTagged:
      return check_tagged(value, path, unknown);
    case Kind::kAnyOf:
      break;
  }
  return check_alternatives(value, path, unknown);
}

// What the value was meant to be words the error: of arrays, the one whose items begin right.
ApiResult<void> Schema::check_alternatives(const Json& value, const std::string& path,
                                           std::vector<std::string>* unknown) const {
  const auto begins_right = [&](const Schema& part) {
    return part.kind_ != Kind::kArray || value.empty() || part.parts_[0].accepts_type(value[0]);
  };
  ApiResult<void> worded;
  bool worded_well = false;
  for (const Schema& part : parts_) {
    if (!part.accepts_type(value)) continue;
    std::vector<std::string> found;
    ApiResult<void> outcome = part.check(value, path, &found);
    if (outcome) {
      if (unknown != nullptr) unknown->insert(unknown->end(), found.begin(), found.end());
      return outcome;
    }
    if (!worded_well) worded = std::move(outcome);
    worded_well = worded_well || begins_right(part);
  }
  return worded;
}

ApiResult<void> Schema::check_number(const Json& value, const std::string& path) const {
  const double number = value.get<double>();
  const bool low = least_excluded_ ? !(number > least_) : !(number >= least_);
  if (low || !(number <= most_)) {
    // range_text() leaves out bounds that only mean "fits".
    const bool too_large = !low && most_ >= kFits;
    const std::string range =
        too_large ? fmt::format("at most {}", number_text(most_)) : range_text();
    return fail(path, fmt::format("{} is {}; it must be {}.", named(path), shown(value), range));
  }
  return {};
}

ApiResult<void> Schema::check_string(const Json& value, const std::string& path) const {
  const std::string& text = value.get_ref<const std::string&>();
  if (nonempty_ && text.empty()) {
    return fail(path, fmt::format("{} is empty; it needs at least one character.", named(path)));
  }
  if (!texts_.empty() && std::find(texts_.begin(), texts_.end(), text) == texts_.end()) {
    return fail(path, fmt::format("{} is {}; it must be {}.{}{}", named(path), shown(value),
                                  joined(texts_, "\""), hint_.empty() ? "" : " ", hint_));
  }
  return {};
}

ApiResult<void> Schema::check_array(const Json& value, const std::string& path,
                                    std::vector<std::string>* unknown) const {
  if (value.size() < least_items_ || value.size() > most_items_) {
    const std::string range = most_items_ == kMany ? fmt::format("at least {}", least_items_)
                              : least_items_ == 0
                                  ? fmt::format("at most {}", most_items_)
                                  : fmt::format("{} to {}", least_items_, most_items_);
    return fail(path, fmt::format("{} has {} elements; it must have {}.", named(path), value.size(),
                                  range));
  }
  if (parts_[0].kind_ == Kind::kAny) return {};
  for (size_t i = 0; i < value.size(); ++i) {
    FATHOM_API_TRY(parts_[0].check(value[i], fmt::format("{}[{}]", path, i), unknown));
  }
  return {};
}

ApiResult<void> Schema::check_object(const Json& value, const std::string& path,
                                     std::vector<std::string>* unknown) const {
  for (const Field& field : fields_) {
    const auto found = value.find(field.name);
    const std::string where = child_path(path, field.name);
    if (found == value.end()) {
      if (!field.required) continue;
      return fail(where,
                  fmt::format("{} is missing; it must be {}.", where, field.schema.expectation()));
    }
    if (found->is_null() && !field.required) continue;
    FATHOM_API_TRY(field.schema.check(*found, where, unknown));
  }
  if (open_ || unknown == nullptr) return {};
  for (auto element = value.begin(); element != value.end(); ++element) {
    const std::string& key = element.key();
    const bool known = std::any_of(fields_.begin(), fields_.end(),
                                   [&](const Field& field) { return field.name == key; });
    if (!known) unknown->push_back(child_path(path, key));
  }
  return {};
}

ApiResult<void> Schema::check_tagged(const Json& value, const std::string& path,
                                     std::vector<std::string>* unknown) const {
  const auto tag = value.find(tag_);
  const std::string where = child_path(path, tag_);
  if (tag == value.end()) {
    return fail(where, fmt::format("{} is missing; it must be {}.", where, joined(texts_, "\"")));
  }
  if (!tag->is_string()) {
    return fail(where, fmt::format("{} must be a string, not {}.", where, type_in_words(*tag)));
  }
  const auto found = std::find(texts_.begin(), texts_.end(), tag->get_ref<const std::string&>());
  if (found == texts_.end()) {
    return fail(where, fmt::format("{} is {}; it must be {}.{}{}", where, shown(*tag),
                                   joined(texts_, "\""), hint_.empty() ? "" : " ", hint_));
  }
  return parts_[found - texts_.begin()].check(value, path, unknown);
}

std::string Schema::range_text() const {
  if (least_excluded_ && std::isfinite(most_)) {
    return fmt::format("above {} and at most {}", number_text(least_), number_text(most_));
  }
  if (least_excluded_) return fmt::format("above {}", number_text(least_));
  if (std::isfinite(least_) && std::isfinite(most_) && most_ < kFits) {
    return fmt::format("between {} and {}", number_text(least_), number_text(most_));
  }
  if (std::isfinite(least_) && least_ > -0x1p63) {
    return fmt::format("at least {}", number_text(least_));
  }
  if (most_ < kFits) return fmt::format("at most {}", number_text(most_));
  return "";
}

std::string Schema::expectation() const {
  const std::string range = range_text();
  switch (kind_) {
    case Kind::kAny:
      return "any value";
    case Kind::kRefused:
      return "null";
    case Kind::kBoolean:
      return "true or false";
    case Kind::kInteger:
      return range.empty() ? "an integer" : "an integer " + range;
    case Kind::kNumber:
      return range.empty() ? "a number" : "a number " + range;
    case Kind::kString:
      return texts_.empty() ? "a string" : joined(texts_, "\"");
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
    case Kind::kMap:
    case Kind::kTagged:
      return "an object";
    case Kind::kAnyOf:
      break;
  }
  std::vector<std::string> options;
  for (const Schema& part : parts_) {
    std::string option = part.expectation();
    if (part.kind_ == Kind::kArray && part.parts_[0].kind_ == Kind::kString)
      option += " of strings";
    if (part.kind_ == Kind::kArray && part.parts_[0].kind_ == Kind::kInteger) {
      option += " of integers";
    }
    if (std::find(options.begin(), options.end(), option) == options.end()) {
      options.push_back(option);
    }
  }
  return joined(options, "");
}

Json Schema::object_schema() const {
  Json properties = Json::object();
  Json required = Json::array();
  for (const Field& field : fields_) {
    Schema schema = field.schema;
    if (!field.required) schema.nullable_ = true;
    properties[field.name] = schema.json_schema();
    if (field.required) required.push_back(field.name);
  }
  Json out = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) out["required"] = std::move(required);
  return out;
}

Json Schema::bare_schema() const {
  Json out = Json::object();
  switch (kind_) {
    case Kind::kAny:
      break;
    case Kind::kRefused:
      out["type"] = "null";
      break;
    case Kind::kBoolean:
      out["type"] = "boolean";
      break;
    case Kind::kInteger:
    case Kind::kNumber:
      out["type"] = kind_ == Kind::kInteger ? "integer" : "number";
      if (std::isfinite(least_)) {
        out[least_excluded_ ? "exclusiveMinimum" : "minimum"] =
            kind_ == Kind::kInteger ? Json(static_cast<int64_t>(least_)) : Json(least_);
      }
      if (std::isfinite(most_)) {
        out["maximum"] = kind_ == Kind::kInteger && most_ < 0x1p63
                             ? Json(static_cast<int64_t>(most_))
                             : Json(most_);
      }
      break;
    case Kind::kString:
      out["type"] = "string";
      if (!texts_.empty()) out["enum"] = texts_;
      if (nonempty_) out["minLength"] = 1;
      break;
    case Kind::kArray:
      out["type"] = "array";
      out["items"] = parts_[0].json_schema();
      if (least_items_ > 0) out["minItems"] = least_items_;
      if (most_items_ != kMany) out["maxItems"] = most_items_;
      break;
    case Kind::kObject:
      out = object_schema();
      break;
    case Kind::kMap:
      out = {{"type", "object"}, {"additionalProperties", parts_[0].json_schema()}};
      break;
    case Kind::kAnyOf:
      for (const Schema& part : parts_) out["anyOf"].push_back(part.json_schema());
      break;
    case Kind::kTagged:
      for (size_t i = 0; i < parts_.size(); ++i) {
        Json part = parts_[i].json_schema();
        part["properties"][tag_] = {{"type", "string"}, {"const", texts_[i]}};
        part["required"].push_back(tag_);
        out["oneOf"].push_back(std::move(part));
      }
      break;
  }
  return out;
}

Json Schema::json_schema() const {
  Json out = bare_schema();
  if (nullable_ && kind_ != Kind::kAny && kind_ != Kind::kRefused) {
    if (out.contains("type") && !out.contains("enum")) {
      out["type"] = Json::array({out["type"], "null"});
    } else {
      out = {{"anyOf", Json::array({std::move(out), {{"type", "null"}}})}};
    }
  }
  if (!description_.empty()) out["description"] = description_;
  return out;
}

}  // namespace fathom::api
