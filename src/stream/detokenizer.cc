// Holds back the unfinished character at the end of the bytes seen so far.
#include "stream/detokenizer.h"

#include <utility>

#include "text/utf8.h"

namespace fathom {

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(&tokenizer),
      skip_special_tokens_(skip_special_tokens),
      strip_(tokenizer.leading_strip()) {}

std::string IncrementalDetokenizer::push(int32_t id) {
  if (skip_special_tokens_ && tokenizer_->is_special(id)) return {};
  std::string_view bytes = tokenizer_->token_bytes(id);
  while (strip_ > 0 && !bytes.empty()) {
    if (bytes.front() == ' ') {
      bytes.remove_prefix(1);
      --strip_;
    } else {
      strip_ = 0;
    }
  }
  pending_ += bytes;
  const size_t complete = pending_.size() - unfinished_utf8_tail(pending_);
  std::string text = repair_utf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string IncrementalDetokenizer::finish() {
  strip_ = tokenizer_->leading_strip();
  return repair_utf8(std::exchange(pending_, {}));
}

}  // namespace fathom
