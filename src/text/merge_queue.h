// The queues BPE takes its next merge from: lowest rank first, the leftmost of equals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace fathom {

struct QueuedMerge {
  uint32_t rank;
  uint32_t position;
};

// A binary heap: best for the few symbols of an ordinary word.
class HeapMergeQueue {
 public:
  void clear() { heap_.clear(); }
  void push(QueuedMerge merge) {
    heap_.push_back(static_cast<uint64_t>(merge.rank) << 32 | merge.position);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  bool pop(QueuedMerge& merge) {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    merge = {static_cast<uint32_t>(heap_.back() >> 32), static_cast<uint32_t>(heap_.back())};
    heap_.pop_back();
    return true;
  }

 private:
  std::vector<uint64_t> heap_;  // rank << 32 | position
};

// One list of positions for each rank. A long run of one character queues a million merges of a few
// ranks from left to right; a list that stays in order is read like an array, and one that does not
// becomes a heap.
class RankedMergeQueue {
 public:
  void clear() {
    index_.clear();
    lists_.clear();
    ranks_.clear();
  }

  void push(QueuedMerge merge) {
    const auto [at, added] = index_.emplace(merge.rank, lists_.size());
    if (added) lists_.emplace_back();
    List& list = lists_[at->second];
    if (list.empty()) {
      list = List();
      ranks_.push_back(static_cast<uint64_t>(merge.rank) << 32 | at->second);
      std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    } else if (!list.is_heap && merge.position < list.positions.back()) {
      list.positions.erase(list.positions.begin(),
                           list.positions.begin() + static_cast<ptrdiff_t>(list.next));
      list.next = 0;
      list.is_heap = true;  // ascending is a heap already
    }
    list.positions.push_back(merge.position);
    if (list.is_heap) {
      std::push_heap(list.positions.begin(), list.positions.end(), std::greater<>());
    }
  }

  bool pop(QueuedMerge& merge) {
    if (ranks_.empty()) return false;
    List& list = lists_[static_cast<uint32_t>(ranks_.front())];
    merge.rank = static_cast<uint32_t>(ranks_.front() >> 32);
    if (list.is_heap) {
      std::pop_heap(list.positions.begin(), list.positions.end(), std::greater<>());
      merge.position = list.positions.back();
      list.positions.pop_back();
    } else {
      merge.position = list.positions[list.next++];
    }
    if (list.empty()) {
      std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
      ranks_.pop_back();
    }
    return true;
  }

 private:
  struct List {
    std::vector<uint32_t> positions;
    size_t next = 0;  // first position not yet taken; 0 in a heap
    bool is_heap = false;
    bool empty() const { return next == positions.size(); }
  };
  std::unordered_map<uint32_t, size_t> index_;  // rank -> list
  std::vector<List> lists_;
  std::vector<uint64_t> ranks_;  // heap of rank << 32 | list, for lists that are not empty
};

}  // namespace fathom
