// Refuses step plans that would read or write outside the cache or the vocabulary.
#include "model/plan_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace fathom {
namespace {

Status bad(std::string message) {
  return {Code::kInvalidArgument, "the step plan is not usable: " + std::move(message)};
}

Status check_memory(const KvGroup& group, const KvMemory& memory) {
  const int32_t sizes[] = {8, 16, 32, 64, 128};
  if (std::find(std::begin(sizes), std::end(sizes), memory.page_size) == std::end(sizes)) {
    return bad(fmt::format("page_size is {}, but must be 8, 16, 32, 64 or 128", memory.page_size));
  }
  const size_t needed = group.bytes_per_entry * static_cast<size_t>(memory.page_size);
  if (memory.page_stride < needed || memory.page_stride % sizeof(float) != 0) {
    return bad(
        fmt::format("page_stride of group {} is {}, but must be a multiple of 4 and at least "
                    "{} bytes",
                    group.name, memory.page_stride, needed));
  }
  const bool aligned = reinterpret_cast<uintptr_t>(memory.base) % sizeof(float) == 0;
  if (memory.page_count < 0 || (memory.page_count > 0 && memory.base == nullptr) || !aligned) {
    return bad(fmt::format("the memory of group {} is null or not aligned to 4 bytes", group.name));
  }
  return {};
}

Status check_table(const PageTable& table) {
  int64_t previous = 0;
  for (const int32_t begin : table.begin) {
    if (begin < previous) return bad("the begins of a page table do not ascend");
    previous = begin;
  }
  if (previous > static_cast<int64_t>(table.pages.size())) {
    return bad(
        fmt::format("a page table ends at {} but has {} pages", previous, table.pages.size()));
  }
  return {};
}

// Tokens, positions and sequences of all rows. `last_position` [sequences] is -1 where a sequence
// has no rows.
Status check_rows(const ModelConfig& config, const StepPlan& plan, int32_t sequence_count,
                  std::vector<int32_t>& last_position) {
  for (size_t i = 0; i < plan.tokens.size(); ++i) {
    const int32_t token = plan.tokens[i];
    const int32_t position = plan.positions[i];
    const int32_t sequence = plan.sequences[i];
    if (token < 0 || token >= config.vocab_size) {
      return bad(fmt::format("row {} has token {}, but the vocabulary has {} entries", i, token,
                             config.vocab_size));
    }
    if (position < 0 || position >= config.max_position_embeddings) {
      return bad(fmt::format("row {} has position {}, but the model's context ends at {}", i,
                             position, config.max_position_embeddings));
    }
    if (sequence < 0 || sequence >= sequence_count) {
      return bad(
          fmt::format("row {} is of sequence {}, but there are {}", i, sequence, sequence_count));
    }
    int32_t& last = last_position[static_cast<size_t>(sequence)];
    const bool continues = i > 0 && plan.sequences[i - 1] == sequence;
    if (continues ? position != last + 1 : last >= 0) {
      return bad(
          fmt::format("row {}: the rows of a sequence must be consecutive, with consecutive "
                      "positions",
                      i));
    }
    last = position;
  }
  return {};
}

// Pages up to each sequence's last row exist, and no page is written by two of them.
Status check_pages(const StepPlan& plan, const PageTable& table, const KvMemory& memory,
                   const std::vector<int32_t>& last_position) {
  for (size_t s = 0; s < last_position.size(); ++s) {
    if (last_position[s] < 0) continue;
    const int32_t needed = last_position[s] / memory.page_size + 1;
    if (table.begin[s + 1] - table.begin[s] < needed) {
      return bad(fmt::format("sequence {} has {} pages, but its position {} needs {}", s,
                             table.begin[s + 1] - table.begin[s], last_position[s], needed));
    }
    for (int32_t i = 0; i < needed; ++i) {
      const int32_t page = table.pages[static_cast<size_t>(table.begin[s] + i)];
      if (page < 0 || page >= memory.page_count) {
        return bad(
            fmt::format("sequence {} uses page {}, but there are {}", s, page, memory.page_count));
      }
    }
  }
  std::vector<int32_t> written;
  for (size_t i = 0; i < plan.tokens.size(); ++i) {
    const bool first_of_page = i == 0 || plan.sequences[i] != plan.sequences[i - 1] ||
                               plan.positions[i] % memory.page_size == 0;
    if (!first_of_page) continue;
    const auto s = static_cast<size_t>(plan.sequences[i]);
    const int32_t index = table.begin[s] + plan.positions[i] / memory.page_size;
    written.push_back(table.pages[static_cast<size_t>(index)]);
  }
  std::sort(written.begin(), written.end());
  const auto twice = std::adjacent_find(written.begin(), written.end());
  if (twice != written.end()) {
    return bad(fmt::format("page {} would be written for two places at once", *twice));
  }
  return {};
}

}  // namespace

Status check_plan(const ModelConfig& config, const KvLayout& layout, const StepPlan& plan,
                  const std::vector<KvMemory>& kv) {
  const size_t rows = plan.tokens.size();
  if (plan.positions.size() != rows || plan.sequences.size() != rows) {
    return bad(fmt::format("{} tokens, {} positions and {} sequences", rows, plan.positions.size(),
                           plan.sequences.size()));
  }
  if (plan.page_tables.size() != layout.groups.size() || kv.size() != layout.groups.size()) {
    return bad(fmt::format("{} page tables and {} memories for {} cache groups",
                           plan.page_tables.size(), kv.size(), layout.groups.size()));
  }
  std::vector<int32_t> last_position;
  for (size_t g = 0; g < kv.size(); ++g) {
    FATHOM_RETURN_IF_ERROR(check_memory(layout.groups[g], kv[g]));
    FATHOM_RETURN_IF_ERROR(check_table(plan.page_tables[g]));
    const int32_t sequences = plan.page_tables[g].sequence_count();
    last_position.assign(static_cast<size_t>(sequences), -1);
    FATHOM_RETURN_IF_ERROR(check_rows(config, plan, sequences, last_position));
    FATHOM_RETURN_IF_ERROR(check_pages(plan, plan.page_tables[g], kv[g], last_position));
  }
  int32_t previous = -1;
  for (const int32_t row : plan.logit_rows) {
    if (row <= previous || row >= plan.rows()) {
      return bad("logit_rows must ascend and lie within the rows");
    }
    previous = row;
  }
  return {};
}

}  // namespace fathom
