// Reply: the form in which an endpoint tells what the engine says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "http/api/api_error.h"
#include "http/api/parameters.h"
#include "http/exchange.h"
#include "stream/token_stream.h"
#include "text/tokenizer.h"

namespace fathom::api {

// What every form of answer states.
struct AnswerHead {
  std::string id;  // without the endpoint's prefix
  int64_t created = 0;
  std::string model;  // as the request named it
  std::string fingerprint;
  uint64_t seed = 0;  // of choice 0
};

// Tokens of an answer, over all of its choices.
struct TokenCounts {
  int64_t prompt = 0;  // each prompt once, however many choices it has
  int64_t completion = 0;
  int64_t cached = 0;
  int64_t reasoning = 0;
};

// One answer, on the connection's thread. begin() comes first; then events of all choices, for each
// exactly one with `finished`; then end(). fail() may come instead of anything after begin() and is
// the last call.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void begin(Exchange& exchange, const AnswerHead& head) = 0;
  virtual void event(Exchange& exchange, size_t choice, const StreamEvent& event) = 0;
  virtual void end(Exchange& exchange) = 0;
  virtual void fail(Exchange& exchange, const ApiError& error) = 0;
  // Hash of the bytes that a choice got so far, for the request log. They depend on the request
  // alone: counts of the prefix cache and of other choices are left out.
  virtual std::string choice_hash(size_t choice) const = 0;

  // Headers of the answer, set before begin().
  void set_headers(std::vector<std::pair<std::string, std::string>> headers) {
    headers_ = std::move(headers);
  }

 protected:
  HttpResponse response_head(const char* content_type) const {
    HttpResponse response;
    response.content_type = content_type;
    response.headers = headers_;
    return response;
  }

 private:
  std::vector<std::pair<std::string, std::string>> headers_;
};

}  // namespace fathom::api
