// One forward pass, as plain data: any mix of prompt chunks and decode rows of several sequences.
//
// Built by the scheduler (or by a caller of the C ABI's step face), read by the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom {

// Page lists of all sequences of a step for one KV group: the entry of position p of sequence s is
// in page pages[begin[s] + p / page_size], at slot p % page_size.
struct PageTable {
  std::vector<int32_t> pages;
  std::vector<int32_t> begin;  // [sequences + 1]

  int32_t sequence_count() const {
    return begin.empty() ? 0 : static_cast<int32_t>(begin.size()) - 1;
  }
};

// Rows of one sequence are consecutive, with ascending consecutive positions. A row sees the
// positions 0..its own of its sequence; everything before the first row of a sequence in this step
// must have been written to its pages by earlier steps.
struct StepPlan {
  std::vector<int32_t> tokens;         // [rows] token ids
  std::vector<int32_t> positions;      // [rows] absolute, from 0
  std::vector<int32_t> sequences;      // [rows] index into the page tables
  std::vector<PageTable> page_tables;  // one per KvLayout group
  std::vector<int32_t> logit_rows;     // rows whose logits are wanted, ascending

  int32_t rows() const { return static_cast<int32_t>(tokens.size()); }
  void clear() {
    tokens.clear();
    positions.clear();
    sequences.clear();
    for (PageTable& table : page_tables) {
      table.pages.clear();
      table.begin.clear();
    }
    logit_rows.clear();
  }
};

// KV memory of one group, owned by the engine or by a host: page i starts at base + i *
// page_stride. Inside a page the layers follow one another, and inside a layer its page_size
// entries.
struct KvMemory {
  std::byte* base = nullptr;
  int64_t page_count = 0;
  int32_t page_size = 0;   // tokens per page: 8, 16, 32, 64 or 128
  size_t page_stride = 0;  // bytes from page to page, at least page_size * bytes_per_entry
};

}  // namespace fathom
