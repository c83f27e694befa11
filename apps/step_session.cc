// KV memory, page tables and step plans for callers without an engine.
#include "apps/step_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/console.h"

namespace fathom::apps {

Result<StepSession> StepSession::create(Model& model, int page_size,
                                        std::vector<int64_t> capacities) {
  StepSession session;
  session.model_ = &model;
  session.page_size_ = page_size;
  session.lengths_.assign(capacities.size(), 0);
  int64_t page_count = 0;
  for (const int64_t tokens : capacities) {
    std::vector<int32_t> pages(static_cast<size_t>((tokens + page_size - 1) / page_size));
    for (int32_t& page : pages) page = static_cast<int32_t>(page_count++);
    session.pages_.push_back(std::move(pages));
  }
  // Scatter: sequence by sequence, from both ends in turn.
  for (auto& pages : session.pages_) {
    std::vector<int32_t> scattered;
    for (size_t low = 0, high = pages.size(); low < high;) {
      scattered.push_back(pages[--high]);
      if (low < high) scattered.push_back(pages[low++]);
    }
    pages = std::move(scattered);
  }
  uint64_t wanted = 0;
  for (const KvGroup& group : model.kv_layout().groups) {
    wanted += uint64_t(page_count) * uint64_t(page_size) * group.bytes_per_entry;
  }
  const uint64_t available = available_memory_bytes();
  if (wanted > available) {
    return error(Code::kOutOfMemory,
                 fmt::format("The KV cache would take {}, but only {} of memory are free.",
                             human_bytes(wanted), human_bytes(available)));
  }
  for (const KvGroup& group : model.kv_layout().groups) {
    const size_t stride = size_t(page_size) * group.bytes_per_entry;
    FATHOM_ASSIGN(HugeBuffer buffer, HugeBuffer::allocate(size_t(page_count) * stride));
    session.memory_.push_back({buffer.data(), page_count, page_size, stride});
    session.buffers_.push_back(std::move(buffer));
  }
  return session;
}

Status StepSession::step(std::span<const SessionRows> rows, std::vector<float>* logits,
                         StepTrace* trace) {
  plan_.clear();
  plan_.page_tables.resize(memory_.size());
  for (PageTable& table : plan_.page_tables) table.begin.push_back(0);
  int32_t sequence_index = 0;
  for (const SessionRows& part : rows) {
    const size_t id = static_cast<size_t>(part.sequence);
    const int64_t end = lengths_[id] + static_cast<int64_t>(part.tokens.size());
    const int64_t page_count = (end + page_size_ - 1) / page_size_;
    if (page_count > static_cast<int64_t>(pages_[id].size())) {
      return {Code::kInternal, "A sequence of a step session has outgrown its pages."};
    }
    for (const int32_t offset : part.logit_offsets) {
      plan_.logit_rows.push_back(plan_.rows() + offset);
    }
    for (const int32_t token : part.tokens) {
      plan_.tokens.push_back(token);
      plan_.positions.push_back(static_cast<int32_t>(lengths_[id]++));
      plan_.sequences.push_back(sequence_index);
    }
    for (PageTable& table : plan_.page_tables) {
      table.pages.insert(table.pages.end(), pages_[id].begin(), pages_[id].begin() + page_count);
      table.begin.push_back(static_cast<int32_t>(table.pages.size()));
    }
    ++sequence_index;
  }
  StepOutput output;
  output.trace = trace;
  if (logits != nullptr) {
    logits->resize(plan_.logit_rows.size() * static_cast<size_t>(model_->config().vocab_size));
    output.logits = logits->data();
  }
  return model_->step(plan_, memory_, output);
}

Status StepSession::step(int sequence, std::span<const int32_t> tokens,
                         std::vector<float>* logits) {
  SessionRows rows{sequence, tokens, {}};
  if (logits != nullptr) rows.logit_offsets = {static_cast<int32_t>(tokens.size()) - 1};
  return step({&rows, 1}, logits);
}

std::vector<int32_t> pseudo_random_tokens(int64_t count, int64_t vocab_size, uint64_t seed) {
  std::vector<int32_t> tokens(static_cast<size_t>(std::max<int64_t>(count, 0)));
  uint64_t state = seed;
  for (int32_t& token : tokens) {  // SplitMix64
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    token = static_cast<int32_t>((z ^ (z >> 31)) % static_cast<uint64_t>(vocab_size));
  }
  return tokens;
}

}  // namespace fathom::apps
