// Schema: the form of a JSON value. One description validates requests, words the errors and is
// printed as JSON Schema in /openapi.json.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "http/api/api_error.h"
#include "http/api/json.h"

namespace fathom::api {

struct Field;

// Immutable once built; safe from several threads.
class Schema {
 public:
  static Schema any();
  static Schema boolean();
  static Schema integer(double least = kLowest, double most = kHighest);
  static Schema number(double least = kLowest, double most = kHighest);
  static Schema string();
  static Schema one_of_texts(std::vector<std::string> texts);
  static Schema array(Schema items, size_t least = 0, size_t most = kMany);
  static Schema object(std::vector<Field> fields);
  static Schema map(Schema values);  // an object with any keys
  // The first alternative of the value's JSON type decides.
  static Schema any_of(std::vector<Schema> alternatives);
  // Only null: a parameter that is known and not offered. `why` is a sentence.
  static Schema refused(std::string why);
  // Objects that say in the field `tag` which of the alternatives they are.
  static Schema tagged(std::string tag, std::vector<std::pair<std::string, Schema>> alternatives);

  Schema& above(double bound);          // least, itself excluded
  Schema& about(std::string text);      // description
  Schema& nonempty();                   // a string of at least one character
  Schema& open();                       // further keys mean something: they are not reported
  Schema& or_null();                    // null is a value (optional fields may be null anyway)
  Schema& otherwise(std::string hint);  // added to the message about an unknown tag

  // Whether the value has this form; the error names the path. Keys of closed objects that are not
  // known are no error; their paths are added to `unknown` (nullptr: not wanted).
  ApiResult<void> check(const Json& value, const std::string& path,
                        std::vector<std::string>* unknown) const;
  Json json_schema() const;
  std::string expectation() const;  // "a number between 0 and 2"

 private:
  enum class Kind {
    kAny,
    kBoolean,
    kInteger,
    kNumber,
    kString,
    kArray,
    kObject,
    kMap,
    kAnyOf,
    kTagged,
    kRefused
  };
  static constexpr double kLowest = -std::numeric_limits<double>::infinity();
  static constexpr double kHighest = std::numeric_limits<double>::infinity();
  static constexpr size_t kMany = std::numeric_limits<size_t>::max();

  explicit Schema(Kind kind);  // not inline: Field is incomplete here
  bool accepts_type(const Json& value) const;
  ApiResult<void> check_number(const Json& value, const std::string& path) const;
  ApiResult<void> check_string(const Json& value, const std::string& path) const;
  ApiResult<void> check_array(const Json& value, const std::string& path,
                              std::vector<std::string>* unknown) const;
  ApiResult<void> check_object(const Json& value, const std::string& path,
                               std::vector<std::string>* unknown) const;
  ApiResult<void> check_tagged(const Json& value, const std::string& path,
                               std::vector<std::string>* unknown) const;
  ApiResult<void> check_alternatives(const Json& value, const std::string& path,
                                     std::vector<std::string>* unknown) const;
  std::string range_text() const;
  Json bare_schema() const;
  Json object_schema() const;

  Kind kind_;
  double least_ = kLowest, most_ = kHighest;
  bool least_excluded_ = false;
  size_t least_items_ = 0, most_items_ = kMany;
  bool nonempty_ = false, open_ = false, nullable_ = false;
  std::string description_, tag_, hint_;
  std::vector<std::string> texts_;  // of a string; or the tags of the alternatives
  std::vector<Schema> parts_;       // items, values or alternatives
  std::vector<Field> fields_;
};

struct Field {
  std::string name;
  Schema schema;
  bool required = false;
};

}  // namespace fathom::api
