// TokenMask: which tokens a request may choose next, as a function of those it has chosen.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/status.h"

namespace fathom {

// Structured output of one request. It must depend on nothing but the request and the tokens that
// it accepted: a request's bits do. Used by one thread at a time (the engine's or one of its
// workers); different masks are used in parallel, so what they share must be safe for that. Nothing
// here may throw.
class TokenMask {
 public:
  virtual ~TokenMask() = default;

  // False: everything is allowed at this point, and allowed() is not called.
  virtual bool active() const = 0;
  // Fills `bitmask`, which comes with one bit per logit of a row, (row width + 31) / 32 words of
  // any content: bit id % 32 of word id / 32 is set where the id may be chosen. End-of-sequence ids
  // are allowed exactly where their bits are set.
  virtual void allowed(std::vector<uint32_t>* bitmask) = 0;
  // The token was chosen. An error ends the request.
  virtual Status accept(int32_t id) = 0;
  // Nothing but end-of-sequence may follow. min_tokens no longer counts then.
  virtual bool finished() const = 0;
  // A mask of its own in the same state, for another choice of the same request. Called by
  // Engine::submit_many() only, before the first accept().
  virtual std::shared_ptr<TokenMask> clone() const = 0;
};

}  // namespace fathom
