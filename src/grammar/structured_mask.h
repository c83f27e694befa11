// StructuredMask: the mask of one answer, through reasoning, free text and grammar.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grammar/backend.h"
#include "grammar/grammar.h"
#include "grammar/vocabulary.h"
#include "types/token_mask.h"

namespace fathom {

class StructuredMask final : public TokenMask {
 public:
  struct Form {
    std::shared_ptr<const Vocabulary> vocabulary;
    std::shared_ptr<const MatcherFactory> grammar;  // keeps what the matcher points into
    std::string opening;    // not empty: the answer is free text until it contains this
    bool gap = false;       // newlines may stand between reasoning and grammar
    int32_t think_id = -1;  // the token <think>, if there is one
  };
  StructuredMask(Form form, std::unique_ptr<Matcher> matcher, ReasoningStart reasoning);
  StructuredMask(const StructuredMask& other);

  bool active() const override;
  void allowed(std::vector<uint32_t>* bitmask) override;
  Status accept(int32_t id) override;
  bool finished() const override { return finished_; }
  std::shared_ptr<TokenMask> clone() const override;

 private:
  enum class State {
    kMayOpen,    // grammar, or <think>
    kReasoning,  // anything but end of sequence, until </think>
    kFree,       // anything, until the opening
    kGap,        // grammar, or one of the newlines after reasoning
    kGrammar,
  };

  void leave_reasoning(std::string_view rest);
  Status accept_in_grammar(int32_t id);
  Status update_grammar();
  bool ends_with_opening(int32_t id, std::string_view opening, std::string_view* rest);
  bool is_newline(int32_t id) const;
  bool is_stop(int32_t id) const;

  Form form_;
  std::unique_ptr<Matcher> matcher_;
  State state_;
  int gap_left_ = 2;            // newlines that may still come
  std::string tail_;            // the end of the text that may be the begin of what is waited for
  std::vector<uint32_t> mask_;  // of the grammar, if up to date
  bool mask_valid_ = false;
  bool finished_ = false;
};

}  // namespace fathom
