// Page lists of sequences over one pool.
#include "kvcache/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace fathom {

namespace {

const char* growth_name(KvGrowth growth) {
  switch (growth) {
    case KvGrowth::kPerToken:
      return "one entry a token";
    case KvGrowth::kPerStride:
      return "one entry per stride";
    case KvGrowth::kWindow:
      return "a sliding window";
    case KvGrowth::kPerSequence:
      return "one entry a sequence";
  }
  return "an unknown growth";
}

}  // namespace

KvCache::KvCache(int32_t groups, int32_t page_size, int32_t page_count)
    : groups_(groups), page_size_(page_size), pool_(page_count) {}

bool KvCache::is_page_size(int64_t page_size) {
  return page_size == 8 || page_size == 16 || page_size == 32 || page_size == 64 ||
         page_size == 128;
}

uint64_t KvCache::page_bytes(const KvLayout& layout, int32_t page_size) {
  uint64_t bytes = 0;
  for (const KvGroup& group : layout.groups) bytes += group.bytes_per_entry * uint64_t(page_size);
  return bytes;
}

Result<KvCache> KvCache::create(const KvLayout& layout, int32_t page_size, int64_t page_count) {
  if (!is_page_size(page_size)) {
    return error(
        Code::kInvalidArgument,
        fmt::format("The KV page size is {} tokens; use 8, 16, 32, 64 or 128.", page_size));
  }
  if (page_count < 1 || page_count > std::numeric_limits<int32_t>::max()) {
    return error(Code::kInvalidArgument,
                 fmt::format("The KV cache cannot have {} pages; it needs at least 1 and takes at "
                             "most {}.",
                             page_count, std::numeric_limits<int32_t>::max()));
  }
  if (layout.groups.empty()) {
    return error(Code::kInvalidArgument, "The model's KV layout has no groups.");
  }
  for (const KvGroup& group : layout.groups) {
    if (group.growth != KvGrowth::kPerToken) {
      return error(Code::kUnsupported,
                   fmt::format("KV group \"{}\" grows by {}; only one entry a token is supported.",
                               group.name, growth_name(group.growth)));
    }
  }
  return KvCache(static_cast<int32_t>(layout.groups.size()), page_size,
                 static_cast<int32_t>(page_count));
}

KvCache::Handle KvCache::open() {
  if (unused_.empty()) {
    unused_.push_back(static_cast<Handle>(sequences_.size()));
    sequences_.emplace_back();
  }
  const Handle handle = unused_.back();
  unused_.pop_back();
  sequences_[handle].live = true;
  return handle;
}

KvCache::Handle KvCache::open_shared(Handle parent, int32_t pages) {
  const Handle handle = open();
  const std::vector<int32_t>& shared = sequences_[parent].pages;
  sequences_[handle].pages.assign(shared.begin(), shared.begin() + pages);
  for (const int32_t page : sequences_[handle].pages) pool_.add_reference(page);
  return handle;
}

void KvCache::close(Handle handle) {
  Sequence& sequence = sequences_[handle];
  // Last page first: the next sequence then gets the first pages first.
  for (size_t i = sequence.pages.size(); i-- > 0;) pool_.release(sequence.pages[i]);
  sequence.pages.clear();
  sequence.live = false;
  unused_.push_back(handle);
}

int64_t KvCache::pages_for(int64_t tokens) const {
  return tokens / page_size_ + (tokens % page_size_ != 0 ? 1 : 0);
}

int64_t KvCache::pages_missing(Handle handle, int64_t tokens) const {
  const int64_t held = static_cast<int64_t>(sequences_[handle].pages.size());
  return std::max<int64_t>(0, pages_for(tokens) - held);
}

bool KvCache::reserve(Handle handle, int64_t tokens) {
  const int64_t missing = pages_missing(handle, tokens);
  if (missing > pool_.free_count()) return false;
  std::vector<int32_t>& pages = sequences_[handle].pages;
  for (int64_t i = 0; i < missing; ++i) pages.push_back(pool_.allocate());
  return true;
}

void KvCache::append_to(Handle handle, std::vector<PageTable>* tables) const {
  const std::vector<int32_t>& pages = sequences_[handle].pages;
  tables->resize(groups_);
  for (PageTable& table : *tables) {
    if (table.begin.empty()) table.begin.push_back(0);
    table.pages.insert(table.pages.end(), pages.begin(), pages.end());
    table.begin.push_back(static_cast<int32_t>(table.pages.size()));
  }
}

Status KvCache::check_integrity() const {
  std::vector<int32_t> owners(pool_.size(), 0);
  size_t live = 0;
  for (size_t handle = 0; handle < sequences_.size(); ++handle) {
    const Sequence& sequence = sequences_[handle];
    if (sequence.live) ++live;
    if (!sequence.live && !sequence.pages.empty()) {
      return Status(Code::kInternal, fmt::format("Closed sequence {} holds KV pages.", handle));
    }
    std::vector<int32_t> own(sequence.pages);
    for (const int32_t page : own) {
      if (page < 0 || page >= pool_.size()) {
        return Status(Code::kInternal,
                      fmt::format("Sequence {} holds KV page {}, outside the pool.", handle, page));
      }
      ++owners[page];
    }
    std::sort(own.begin(), own.end());
    if (std::adjacent_find(own.begin(), own.end()) != own.end()) {
      return Status(Code::kInternal, fmt::format("Sequence {} holds a KV page twice.", handle));
    }
  }
  if (live + unused_.size() != sequences_.size()) {
    return Status(Code::kInternal, "A handle of the KV cache is neither live nor unused.");
  }
  return pool_.check(owners);
}

}  // namespace fathom
