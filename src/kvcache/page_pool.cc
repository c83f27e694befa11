// Free list and reference counts of KV pages.
#include "kvcache/page_pool.h"

#include <fmt/format.h>

namespace fathom {

PagePool::PagePool(int32_t pages) : references_(pages, 0) {
  free_.reserve(pages);
  for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(page);
}

int32_t PagePool::allocate() {
  const int32_t page = free_.back();
  free_.pop_back();
  references_[page] = 1;
  return page;
}

void PagePool::add_reference(int32_t page) {
  ++references_[page];
}

bool PagePool::release(int32_t page) {
  return --references_[page] == 0;
}

void PagePool::give_back(int32_t page) {
  free_.push_back(page);
}

Status PagePool::check(const std::vector<int32_t>& owners, const std::vector<bool>& kept) const {
  std::vector<bool> is_free(references_.size(), false);
  for (const int32_t page : free_) {
    if (page < 0 || page >= size()) {
      return Status(Code::kInternal, fmt::format("Free KV page {} is outside the pool.", page));
    }
    if (is_free[page]) {
      return Status(Code::kInternal, fmt::format("KV page {} is in the free list twice.", page));
    }
    is_free[page] = true;
  }
  for (int32_t page = 0; page < size(); ++page) {
    if (references_[page] != owners[page] || is_free[page] != (owners[page] == 0 && !kept[page])) {
      return Status(Code::kInternal,
                    fmt::format("KV page {} has {} owners, {} references and is {}.", page,
                                owners[page], references_[page],
                                is_free[page] ? "in the free list" : "not in the free list"));
    }
  }
  return Status();
}

}  // namespace fathom
