// PagePool: which KV pages are free and how many owners the others have.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"

namespace fathom {

// Pages are numbers in [0, size()). A page is free, or in use with as many references as lists that
// hold it; in use without a reference it is kept for later. Which page comes next depends only on
// the order of calls. Used by one thread (the engine's).
class PagePool {
 public:
  explicit PagePool(int32_t pages);

  int32_t size() const { return static_cast<int32_t>(references_.size()); }
  int32_t free_count() const { return static_cast<int32_t>(free_.size()); }
  int32_t references(int32_t page) const { return references_[page]; }

  int32_t allocate();                // a page with one reference; free_count() must not be 0
  void add_reference(int32_t page);  // of a page that is in use
  bool release(int32_t page);        // drops one reference; true if it was the last
  void give_back(int32_t page);      // a page in use without references becomes free

  // `owners[page]` counts the lists that hold each page, `kept[page]` tells whether it may stay in
  // use without any: references must equal owners, and exactly the pages that are neither owned nor
  // kept must be free. The error is a defect of fathom.
  Status check(const std::vector<int32_t>& owners, const std::vector<bool>& kept) const;

 private:
  std::vector<int32_t> references_;  // [pages]
  std::vector<int32_t> free_;        // a stack; the lowest pages are on top at first
};

}  // namespace fathom
