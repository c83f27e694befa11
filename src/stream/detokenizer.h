// IncrementalDetokenizer: token ids to text, one id at a time, never half a character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace fathom {

// Turns the tokens of one sequence into text as they come. The pieces, joined with finish(), are
// byte for byte Tokenizer::decode() of all ids. Bytes of an unfinished character are held back;
// bytes that cannot become one are U+FFFD, one for each maximal invalid part. Used by one thread at
// a time; the tokenizer must outlive it.
class IncrementalDetokenizer {
 public:
  IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);

  std::string push(int32_t id);  // the text that became complete with this id
  std::string finish();          // U+FFFD if an unfinished character is left; then starts afresh

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  size_t strip_;         // spaces still to drop at the start of the text
  std::string pending_;  // bytes of an unfinished character (at most 3)
};

}  // namespace fathom
