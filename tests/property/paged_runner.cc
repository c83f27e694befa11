// Runs sequences through a model under any plan.
#include "tests/property/paged_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace fathom::testing_util {
namespace {

class Runner {
 public:
  Runner(Model& model, const std::vector<std::vector<int32_t>>& sequences, const RunStyle& style)
      : model_(model), sequences_(sequences), style_(style), random_(style.seed) {
    const auto vocab = static_cast<size_t>(model.config().vocab_size);
    for (const std::vector<int32_t>& sequence : sequences) {
      result_.logits.emplace_back(sequence.size() * vocab);
      result_.done.emplace_back(sequence.size());
    }
    position_.resize(sequences.size());
    scatter_pages();
  }

  RunResult run() {
    for (size_t s = 0; style_.one_chunk && s < sequences_.size(); ++s) {
      step({{s, sequences_[s].size()}});
    }
    for (;;) {
      const std::vector<Chunk> chunks = random_chunks();
      if (chunks.empty()) return std::move(result_);
      step(chunks);
    }
  }

 private:
  struct Chunk {
    size_t sequence;
    size_t tokens;
  };

  // Twice the pages that are needed, in random order, all bits set: NaN in fp32 and in bf16.
  void scatter_pages() {
    const KvGroup& group = model_.kv_layout().groups[0];
    int32_t count = 0;
    for (const std::vector<int32_t>& sequence : sequences_) count += pages_of(sequence.size());
    std::vector<int32_t> numbers(static_cast<size_t>(2 * count));
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), random_);
    memory_.page_size = style_.page_size;
    memory_.page_count = 2 * count;
    memory_.page_stride = group.bytes_per_entry * static_cast<size_t>(style_.page_size) + 64;
    bytes_.assign(memory_.page_stride * numbers.size(), std::byte{0xff});
    memory_.base = bytes_.data();
    auto next = numbers.begin();
    for (const std::vector<int32_t>& sequence : sequences_) {
      const int32_t own = pages_of(sequence.size());
      pages_.emplace_back(next, next + own);
      next += own;
    }
  }

  int32_t pages_of(size_t tokens) const {
    return (static_cast<int32_t>(tokens) + style_.page_size - 1) / style_.page_size;
  }

  // Some of the unfinished sequences in random order, with some of their next tokens; often one.
  std::vector<Chunk> random_chunks() {
    std::vector<size_t> open;
    for (size_t s = 0; s < sequences_.size(); ++s) {
      if (position_[s] < sequences_[s].size()) open.push_back(s);
    }
    if (open.empty()) return {};
    std::shuffle(open.begin(), open.end(), random_);
    open.resize(1 + random_() % open.size());
    std::vector<Chunk> chunks;
    for (const size_t s : open) {
      const size_t left = sequences_[s].size() - position_[s];
      const size_t limit = random_() % 3 == 0 ? 3 : 70;
      chunks.push_back({s, 1 + random_() % std::min(left, limit)});
    }
    return chunks;
  }

  void step(const std::vector<Chunk>& chunks) {
    StepPlan plan;
    PageTable table;
    table.begin = {0};
    std::vector<std::pair<size_t, size_t>> rows;  // sequence, position
    for (size_t c = 0; c < chunks.size(); ++c) {
      const size_t s = chunks[c].sequence;
      for (size_t i = 0; i < chunks[c].tokens; ++i) {
        const size_t position = position_[s] + i;
        plan.tokens.push_back(sequences_[s][position]);
        plan.positions.push_back(static_cast<int32_t>(position));
        plan.sequences.push_back(static_cast<int32_t>(c));
        rows.emplace_back(s, position);
      }
      position_[s] += chunks[c].tokens;
      table.pages.insert(table.pages.end(), pages_[s].begin(), pages_[s].end());
      table.begin.push_back(static_cast<int32_t>(table.pages.size()));
    }
    plan.page_tables = {table};
    for (int32_t row = 0; row < plan.rows(); ++row) {
      if (style_.all_rows || random_() % 2 == 0) plan.logit_rows.push_back(row);
    }
    const auto vocab = static_cast<size_t>(model_.config().vocab_size);
    std::vector<float> logits(plan.logit_rows.size() * vocab);
    StepOutput out;
    out.logits = logits.data();
    if (const Status status = model_.step(plan, {memory_}, out); !status.ok()) {
      throw std::runtime_error(status.message());
    }
    for (size_t i = 0; i < plan.logit_rows.size(); ++i) {
      const auto [s, position] = rows[static_cast<size_t>(plan.logit_rows[i])];
      std::memcpy(result_.logits[s].data() + position * vocab, logits.data() + i * vocab,
                  vocab * sizeof(float));
      result_.done[s][position] = true;
    }
  }

  Model& model_;
  const std::vector<std::vector<int32_t>>& sequences_;
  const RunStyle& style_;
  std::mt19937 random_;
  std::vector<size_t> position_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<std::byte> bytes_;
  KvMemory memory_;
  RunResult result_;
};

}  // namespace

RunResult run_sequences(Model& model, const std::vector<std::vector<int32_t>>& sequences,
                        const RunStyle& style) {
  return Runner(model, sequences, style).run();
}

std::vector<std::vector<int32_t>> random_sequences(const Model& model,
                                                   const std::vector<size_t>& lengths,
                                                   uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<int32_t>> sequences;
  for (const size_t length : lengths) {
    std::vector<int32_t>& tokens = sequences.emplace_back(length);
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(random() % static_cast<uint32_t>(model.config().vocab_size));
    }
  }
  return sequences;
}

std::string first_difference(const RunResult& a, const RunResult& b, int64_t vocab_size) {
  const auto vocab = static_cast<size_t>(vocab_size);
  for (size_t s = 0; s < a.logits.size(); ++s) {
    const size_t tokens = std::min(a.done[s].size(), b.done[s].size());
    for (size_t t = 0; t < tokens; ++t) {
      if (!a.done[s][t] || !b.done[s][t]) continue;
      const float* x = a.logits[s].data() + t * vocab;
      const float* y = b.logits[s].data() + t * vocab;
      if (std::memcmp(x, y, vocab * sizeof(float)) == 0) continue;
      const size_t i = static_cast<size_t>(std::mismatch(x, x + vocab, y).first - x);
      return fmt::format("sequence {} token {} logit {}: {:.9g} and {:.9g}", s, t, i,
                         i < vocab ? x[i] : 0.0f, i < vocab ? y[i] : 0.0f);
    }
  }
  return "";
}

}  // namespace fathom::testing_util
