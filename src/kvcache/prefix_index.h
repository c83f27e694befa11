// PrefixIndex: finds the page that holds given tokens after a given beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/status.h"

namespace fathom {

// A forest of full pages: a node is a page, its tokens and the page before it. The first page of a
// chain has no parent but a scope (a salt): chains of different scopes never meet. A hash of scope
// and all tokens up to the end of the page finds candidates; parent, scope and tokens are compared,
// so that equal hashes of different texts give a longer search and never a wrong page. Two nodes
// are never equal. Knows nothing of owners. Used by one thread (the engine's).
class PrefixIndex {
 public:
  // Of `size` bytes after a beginning whose hash is `before`.
  using Hash = uint64_t (*)(uint64_t before, const void* bytes, size_t size);
  static uint64_t default_hash(uint64_t before, const void* bytes, size_t size);
  static constexpr int32_t kNone = -1;

  PrefixIndex(int32_t page_size, int32_t pages, Hash hash);

  // The page with these `tokens` [page_size] after page `parent`, or, with parent kNone, at the
  // beginning of a sequence of `scope`; kNone if there is none.
  int32_t find(int32_t parent, const std::string& scope, const int32_t* tokens) const;
  // `page` must not be a node, `parent` must be one or kNone, and find() must have failed.
  void insert(int32_t page, int32_t parent, const std::string& scope, const int32_t* tokens);
  void erase(int32_t page);  // a node without children

  bool contains(int32_t page) const { return nodes_[page] != nullptr; }
  int32_t parent(int32_t page) const { return nodes_[page]->parent; }
  int32_t children(int32_t page) const { return nodes_[page]->children; }
  int32_t size() const { return static_cast<int32_t>(by_hash_.size()); }

  // Parents exist, children are counted, hashes are right, no two nodes are equal. For tests.
  Status check() const;

 private:
  struct Node {
    uint64_t hash = 0;
    int32_t parent = kNone;
    int32_t children = 0;
    std::string scope;            // of nodes without a parent
    std::vector<int32_t> tokens;  // [page_size]
  };
  uint64_t hash_of(int32_t parent, const std::string& scope, const int32_t* tokens) const;

  int32_t page_size_;
  Hash hash_;
  std::vector<std::unique_ptr<Node>> nodes_;            // [pages]
  std::unordered_multimap<uint64_t, int32_t> by_hash_;  // hash to page
};

}  // namespace fathom
