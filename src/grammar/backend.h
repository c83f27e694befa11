// The seam to the library that compiles and matches grammars: xgrammar_backend.cc, or
// unavailable.cc in builds without it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "grammar/vocabulary.h"

namespace fathom {

// One answer's place in a grammar. Used by one thread at a time.
class Matcher {
 public:
  virtual ~Matcher() = default;
  virtual std::unique_ptr<Matcher> clone() const = 0;
  // Sets the bits of allowed ids; `bitmask` has (vocabulary size + 31) / 32 words.
  virtual Status allowed(std::vector<uint32_t>* bitmask) = 0;
  virtual Status accept(int32_t id) = 0;                // a token, end of sequence included
  virtual bool accept_text(std::string_view text) = 0;  // false: not allowed here, nothing changed
  virtual bool complete() const = 0;                    // the answer may end here
};

class MatcherFactory {
 public:
  virtual ~MatcherFactory() = default;
  virtual Result<std::unique_ptr<Matcher>> make() const = 0;
  virtual size_t memory_bytes() const = 0;
};

// What a grammar is made of.
struct GrammarSource {
  enum class Kind { kSchema, kRegex, kStructuralTag } kind = Kind::kSchema;
  std::string text;
  bool strict = true;      // kSchema
  bool markup = false;     // DSML: its token is text
  int max_whitespace = 0;  // kSchema: at one place
};

// Not thread-safe.
class GrammarBackend {
 public:
  static Result<std::unique_ptr<GrammarBackend>> create(
      std::shared_ptr<const Vocabulary> vocabulary);
  virtual ~GrammarBackend() = default;
  virtual Result<std::shared_ptr<const MatcherFactory>> compile(const GrammarSource& source) = 0;
};

}  // namespace fathom
