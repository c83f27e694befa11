// A walk over a JSON schema that knows where sub-schemas stand.
#include "grammar/schema_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/json_shape.h"

namespace fathom {

namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 16> kUnenforceable = {
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "dependentRequired",
    "dependencies",
    "$dynamicRef",
    "$recursiveRef",
    "dependentSchemas",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "contentSchema",
};
constexpr std::array<std::string_view, 4> kSchemaMaps = {"properties", "patternProperties", "$defs",
                                                         "definitions"};
constexpr std::array<std::string_view, 4> kSchemaLists = {"anyOf", "oneOf", "allOf", "prefixItems"};
constexpr std::array<std::string_view, 6> kSchemas = {
    "items",         "additionalProperties", "additionalItems",
    "propertyNames", "unevaluatedItems",     "unevaluatedProperties"};
constexpr std::array<std::string_view, 6> kCounts = {"minLength", "maxLength",     "minItems",
                                                     "maxItems",  "minProperties", "maxProperties"};

// Without a type, xgrammar lets these pass unheeded.
constexpr std::array<std::string_view, 14> kNeedType = {
    "pattern",  "format",           "minLength",     "maxLength",        "minimum",
    "maximum",  "exclusiveMinimum", "multipleOf",    "exclusiveMaximum", "minItems",
    "maxItems", "minProperties",    "maxProperties", "propertyNames"};

template <size_t n>
bool contains(const std::array<std::string_view, n>& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

// Sums up what a schema demands; places are JSON pointers.
class Walk {
 public:
  Status schema(const Json& json, const std::string& at) {
    if (json.is_boolean()) return Status();
    if (!json.is_object()) {
      return refuse(at, "is not a schema: an object, true or false is needed");
    }
    if (++schemas_ > SchemaLimits::kMaxSchemas) {
      return refuse(at, fmt::format("is one schema too many: at most {} may be in one request",
                                    SchemaLimits::kMaxSchemas));
    }
    const bool typed = json.contains("type");
    for (const auto& [key, value] : json.items()) {
      if (!typed && contains(kNeedType, key)) {
        return refuse(at + "/" + key, "is not enforced without a \"type\" beside it; add one");
      }
      FATHOM_RETURN_IF_ERROR(keyword(key, value, at + "/" + key));
    }
    return Status();
  }

 private:
  static Status refuse(const std::string& at, const std::string& what) {
    return Status(Code::kInvalidArgument, fmt::format("In the JSON schema, {} {}.", at, what));
  }

  Status keyword(const std::string& key, const Json& value, const std::string& at) {
    if (contains(kUnenforceable, key)) return refuse(at, "cannot be enforced; leave it out");
    if (key == "uniqueItems" && value != false) {
      return refuse(at, "cannot be enforced; leave it out");
    }
    if (key == "$ref") return reference(value, at);
    if (key == "pattern") return pattern(value, at);
    if (contains(kCounts, key)) return count(value, at);
    if (contains(kSchemas, key) && !(key == "items" && value.is_array())) return schema(value, at);
    if (contains(kSchemaLists, key) || key == "items") return list(value, at);
    if (contains(kSchemaMaps, key)) return map(value, at, key == "patternProperties");
    if (key == "enum" && (!value.is_array() || value.empty())) {
      return refuse(at, "must be a list of at least one value");
    }
    return Status();
  }

  Status list(const Json& value, const std::string& at) {
    if (!value.is_array() || value.empty()) return refuse(at, "must be a list of schemas");
    for (size_t i = 0; i < value.size(); ++i) {
      FATHOM_RETURN_IF_ERROR(schema(value[i], fmt::format("{}/{}", at, i)));
    }
    return Status();
  }

  Status map(const Json& value, const std::string& at, bool patterns) {
    if (!value.is_object()) return refuse(at, "must be an object whose values are schemas");
    for (const auto& [name, sub] : value.items()) {
      if (patterns) FATHOM_RETURN_IF_ERROR(check_pattern(name).with_context(at));
      FATHOM_RETURN_IF_ERROR(schema(sub, at + "/" + name));
    }
    return Status();
  }

  static Status reference(const Json& value, const std::string& at) {
    const bool local = value.is_string() && value.get_ref<const std::string&>().starts_with("#");
    return local ? Status() : refuse(at, "must point into the schema itself: \"#/...\"");
  }

  static Status pattern(const Json& value, const std::string& at) {
    if (!value.is_string()) return refuse(at, "must be a string");
    return check_pattern(value.get_ref<const std::string&>()).with_context(at);
  }

  static Status count(const Json& value, const std::string& at) {
    const bool whole = value.is_number_integer() && value >= 0 && value <= SchemaLimits::kMaxCount;
    return whole ? Status()
                 : refuse(at, fmt::format("must be a whole number of 0 to {}",
                                          SchemaLimits::kMaxCount));
  }

  size_t schemas_ = 0;
};

// Counts values and depth. Iterative in neither: the shape was bounded before.
size_t count_values(const Json& json, size_t depth, size_t* deepest) {
  *deepest = std::max(*deepest, depth);
  size_t values = 1;
  if (json.is_structured()) {
    for (const Json& value : json) values += count_values(value, depth + 1, deepest);
  }
  return values;
}

// The largest number in a {m,n} whose brace stands at `at`; 1 if it is none.
int64_t largest_count(std::string_view pattern, size_t at) {
  int64_t largest = 1;
  int64_t number = 0;
  for (size_t i = at + 1; i < pattern.size() && pattern[i] != '}'; ++i) {
    const char c = pattern[i];
    if (c != ',' && (c < '0' || c > '9')) return 1;
    number = c == ',' ? 0 : std::min<int64_t>(number * 10 + (c - '0'), 1 << 20);
    largest = std::max(largest, number);
  }
  return largest;
}

// How many characters a pattern has once its counted repetitions are written out, roughly.
int64_t unfolded_steps(std::string_view pattern) {
  constexpr int64_t kMany = int64_t{1} << 40;
  std::vector<int64_t> sums = {0};  // of the open groups
  int64_t last = 0;                 // of the last atom
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '(') {
      sums.push_back(0);
      last = 0;
    } else if (c == ')' && sums.size() > 1) {
      last = sums.back();
      sums.pop_back();
      sums.back() = std::min(sums.back() + last, kMany);
    } else if (c == '{') {
      sums.back() = std::min(sums.back() + last * (largest_count(pattern, i) - 1), kMany);
      i = std::min(pattern.find('}', i), pattern.size() - 1);
    } else {
      if (c == '\\') ++i;
      if (c == '[') {
        const size_t end = pattern.find(']', i + 2);
        i = end == std::string_view::npos ? pattern.size() : end;
      }
      last = 1;
      ++sums.back();
    }
  }
  int64_t total = 0;
  for (const int64_t sum : sums) total = std::min(total + sum, kMany);
  return total;
}

}  // namespace

Status check_schema(std::string_view schema) {
  if (schema.size() > SchemaLimits::kMaxBytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("The JSON schema has {} bytes; at most {} are allowed.",
                              schema.size(), SchemaLimits::kMaxBytes));
  }
  FATHOM_RETURN_IF_ERROR(check_json_shape(schema).with_context("The JSON schema"));
  const Json json = Json::parse(schema.begin(), schema.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return Status(Code::kInvalidArgument, "The JSON schema is not valid JSON.");
  }
  size_t depth = 0;
  const size_t values = count_values(json, 1, &depth);
  if (values > SchemaLimits::kMaxValues || depth > SchemaLimits::kMaxDepth) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("The JSON schema has {} values, {} levels deep; at most {} and {} are allowed.",
                    values, depth, SchemaLimits::kMaxValues, SchemaLimits::kMaxDepth));
  }
  return Walk().schema(json, "#");
}

Status check_pattern(std::string_view pattern) {
  if (pattern.size() > SchemaLimits::kMaxPattern) {
    return Status(Code::kInvalidArgument,
                  fmt::format("The regular expression has {} bytes; at most {} are allowed.",
                              pattern.size(), SchemaLimits::kMaxPattern));
  }
  if (unfolded_steps(pattern) > SchemaLimits::kMaxPatternSteps) {
    return Status(Code::kInvalidArgument,
                  fmt::format("The regular expression repeats too much: its {{m,n}} unfold to more "
                              "than {} characters.",
                              SchemaLimits::kMaxPatternSteps));
  }
  return Status();
}

}  // namespace fathom
