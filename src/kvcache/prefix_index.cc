// The forest of cached pages.
#include "kvcache/prefix_index.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

namespace fathom {

uint64_t PrefixIndex::default_hash(uint64_t before, const void* bytes, size_t size) {
  return XXH3_64bits_withSeed(bytes, size, before);
}

PrefixIndex::PrefixIndex(int32_t page_size, int32_t pages, Hash hash)
    : page_size_(page_size), hash_(hash), nodes_(static_cast<size_t>(pages)) {}

uint64_t PrefixIndex::hash_of(int32_t parent, const std::string& scope,
                              const int32_t* tokens) const {
  const uint64_t before =
      parent == kNone ? hash_(0, scope.data(), scope.size()) : nodes_[parent]->hash;
  return hash_(before, tokens, static_cast<size_t>(page_size_) * sizeof(int32_t));
}

int32_t PrefixIndex::find(int32_t parent, const std::string& scope, const int32_t* tokens) const {
  const auto [first, last] = by_hash_.equal_range(hash_of(parent, scope, tokens));
  for (auto candidate = first; candidate != last; ++candidate) {
    const Node& node = *nodes_[candidate->second];
    if (node.parent != parent || (parent == kNone && node.scope != scope)) continue;
    if (std::equal(node.tokens.begin(), node.tokens.end(), tokens)) return candidate->second;
  }
  return kNone;
}

void PrefixIndex::insert(int32_t page, int32_t parent, const std::string& scope,
                         const int32_t* tokens) {
  auto node = std::make_unique<Node>();
  node->hash = hash_of(parent, scope, tokens);
  node->parent = parent;
  if (parent == kNone) node->scope = scope;
  node->tokens.assign(tokens, tokens + page_size_);
  by_hash_.emplace(node->hash, page);
  nodes_[page] = std::move(node);
  if (parent != kNone) ++nodes_[parent]->children;
}

void PrefixIndex::erase(int32_t page) {
  const Node& node = *nodes_[page];
  if (node.parent != kNone) --nodes_[node.parent]->children;
  const auto [first, last] = by_hash_.equal_range(node.hash);
  by_hash_.erase(std::find_if(first, last, [page](const auto& e) { return e.second == page; }));
  nodes_[page].reset();
}

Status PrefixIndex::check() const {
  const auto defect = [](int32_t page, const char* what) {
    return Status(Code::kInternal, fmt::format("Cached KV page {} {}.", page, what));
  };
  const int32_t pages = static_cast<int32_t>(nodes_.size());
  std::vector<int32_t> children(nodes_.size(), 0);
  size_t count = 0;
  for (int32_t page = 0; page < pages; ++page) {
    if (!contains(page)) continue;
    ++count;
    const Node& node = *nodes_[page];
    if (node.parent != kNone) {
      if (node.parent < 0 || node.parent >= pages || !contains(node.parent)) {
        return defect(page, "has a parent that is not cached");
      }
      ++children[node.parent];
    }
    if (node.hash != hash_of(node.parent, node.scope, node.tokens.data())) {
      return defect(page, "has a wrong hash");
    }
    if (find(node.parent, node.scope, node.tokens.data()) != page) {
      return defect(page, "cannot be found or is there twice");
    }
  }
  if (count != by_hash_.size()) return Status(Code::kInternal, "The prefix index lost a page.");
  for (int32_t page = 0; page < pages; ++page) {
    if (contains(page) && nodes_[page]->children != children[page]) {
      return defect(page, "counts its children wrongly");
    }
  }
  return Status();
}

}  // namespace fathom
