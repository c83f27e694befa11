// The states an answer goes through, and what each allows.
#include "grammar/structured_mask.h"

#include <algorithm>
#include <utility>

namespace fathom {

namespace {

constexpr std::string_view kThinkEnd = "</think>";

void set_bit(std::vector<uint32_t>* bits, int32_t id, bool value) {
  const size_t word = static_cast<size_t>(id) / 32;
  if (id < 0 || word >= bits->size()) return;
  const uint32_t bit = uint32_t{1} << (id % 32);
  (*bits)[word] = value ? (*bits)[word] | bit : (*bits)[word] & ~bit;
}

}  // namespace

StructuredMask::StructuredMask(Form form, std::unique_ptr<Matcher> matcher,
                               ReasoningStart reasoning)
    : form_(std::move(form)), matcher_(std::move(matcher)), state_(State::kGrammar) {
  const bool free = !form_.opening.empty();
  if (reasoning == ReasoningStart::kOpen) {
    state_ = State::kReasoning;
  } else if (free) {
    state_ = State::kFree;
  } else if (reasoning == ReasoningStart::kMayOpen && form_.think_id >= 0) {
    state_ = State::kMayOpen;
  }
}

StructuredMask::StructuredMask(const StructuredMask& other)
    : form_(other.form_),
      matcher_(other.matcher_->clone()),
      state_(other.state_),
      gap_left_(other.gap_left_),
      tail_(other.tail_),
      mask_(other.mask_),
      mask_valid_(other.mask_valid_),
      finished_(other.finished_) {}

std::shared_ptr<TokenMask> StructuredMask::clone() const {
  return std::make_shared<StructuredMask>(*this);
}

// Reasoning in front of free text may end the answer, as free text may.
bool StructuredMask::active() const {
  if (state_ == State::kFree) return false;
  return state_ != State::kReasoning || form_.opening.empty();
}

void StructuredMask::allowed(std::vector<uint32_t>* bitmask) {
  if (state_ == State::kReasoning) {
    std::fill(bitmask->begin(), bitmask->end(), ~uint32_t{0});
    for (const int32_t id : form_.vocabulary->stop_ids()) set_bit(bitmask, id, false);
    return;
  }
  std::fill(bitmask->begin(), bitmask->end(), 0);
  // After a failure nothing is allowed, which ends the request.
  if (!update_grammar().ok()) return;
  const size_t words = std::min(mask_.size(), bitmask->size());
  std::copy_n(mask_.begin(), words, bitmask->begin());
  if (state_ == State::kMayOpen) set_bit(bitmask, form_.think_id, true);
  if (state_ == State::kGap) {
    for (const int32_t id : form_.vocabulary->newline_ids()) {
      if (static_cast<int>(form_.vocabulary->bytes(id).size()) <= gap_left_) {
        set_bit(bitmask, id, true);
      }
    }
  }
}

Status StructuredMask::accept(int32_t id) {
  std::string_view rest;
  switch (state_) {
    case State::kFree:
      // What does not fit behind the opening leaves the answer free: it is no call then.
      if (ends_with_opening(id, form_.opening, &rest)) {
        std::unique_ptr<Matcher> matcher = matcher_->clone();
        if (rest.empty() || matcher->accept_text(rest)) {
          matcher_ = std::move(matcher);
          state_ = State::kGrammar;
        }
      }
      return Status();
    case State::kReasoning:
      if (ends_with_opening(id, kThinkEnd, &rest)) leave_reasoning(rest);
      return Status();
    case State::kMayOpen:
      if (id == form_.think_id) {
        state_ = State::kReasoning;
        return Status();
      }
      break;
    case State::kGap:
      if (is_newline(id) && static_cast<int>(form_.vocabulary->bytes(id).size()) <= gap_left_) {
        gap_left_ -= static_cast<int>(form_.vocabulary->bytes(id).size());
        if (gap_left_ == 0) state_ = State::kGrammar;
        return Status();
      }
      break;
    case State::kGrammar:
      break;
  }
  state_ = State::kGrammar;
  return accept_in_grammar(id);
}

// `rest`: what the last token says behind </think>.
void StructuredMask::leave_reasoning(std::string_view rest) {
  tail_.clear();
  if (!form_.opening.empty()) {
    state_ = State::kFree;
    tail_ = rest;
    return;
  }
  state_ = form_.gap ? State::kGap : State::kGrammar;
  if (rest.empty()) return;
  if (form_.gap) {
    while (gap_left_ > 0 && rest.starts_with('\n')) {
      rest.remove_prefix(1);
      --gap_left_;
    }
  }
  // A token that runs on into what the grammar forbids was not </think> on its own: the text is
  // the model's, and the grammar starts behind it.
  if (!rest.empty() && matcher_->accept_text(rest)) state_ = State::kGrammar;
}

Status StructuredMask::accept_in_grammar(int32_t id) {
  mask_valid_ = false;
  FATHOM_RETURN_IF_ERROR(matcher_->accept(id));
  if (is_stop(id) || !matcher_->complete()) return Status();
  // Only end of sequence may follow: so min_tokens must not stand in its way.
  FATHOM_RETURN_IF_ERROR(update_grammar());
  std::vector<uint32_t> others = mask_;
  for (const int32_t stop : form_.vocabulary->stop_ids()) set_bit(&others, stop, false);
  finished_ = std::all_of(others.begin(), others.end(), [](uint32_t word) { return word == 0; });
  return Status();
}

Status StructuredMask::update_grammar() {
  if (mask_valid_) return Status();
  FATHOM_RETURN_IF_ERROR(matcher_->allowed(&mask_));
  mask_valid_ = true;
  return Status();
}

// Whether the text, with this token, contains what is waited for; `rest` is what comes after it.
bool StructuredMask::ends_with_opening(int32_t id, std::string_view opening,
                                       std::string_view* rest) {
  const std::string_view bytes = form_.vocabulary->bytes(id);
  tail_ += bytes;
  const size_t at = tail_.find(opening);
  if (at != std::string::npos) {
    *rest = bytes.substr(bytes.size() - (tail_.size() - at - opening.size()));
    tail_.clear();
    return true;
  }
  if (tail_.size() >= opening.size()) tail_.erase(0, tail_.size() - (opening.size() - 1));
  return false;
}

bool StructuredMask::is_newline(int32_t id) const {
  const std::vector<int32_t>& ids = form_.vocabulary->newline_ids();
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool StructuredMask::is_stop(int32_t id) const {
  const std::vector<int32_t>& ids = form_.vocabulary->stop_ids();
  return std::binary_search(ids.begin(), ids.end(), id);
}

}  // namespace fathom
