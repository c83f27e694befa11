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

KvCache::KvCache(int32_t groups, int32_t page_size, int32_t page_count, PrefixIndex::Hash hash)
    : groups_(groups),
      page_size_(page_size),
      pool_(page_count),
      index_(page_size, page_count, hash),
      last_use_(page_count, 0) {}

bool KvCache::is_page_size(int64_t page_size) {
  return page_size == 8 || page_size == 16 || page_size == 32 || page_size == 64 ||
         page_size == 128;
}

uint64_t KvCache::page_bytes(const KvLayout& layout, int32_t page_size) {
  uint64_t bytes = 0;
  for (const KvGroup& group : layout.groups) bytes += group.bytes_per_entry * uint64_t(page_size);
  return bytes;
}

Result<KvCache> KvCache::create(const KvLayout& layout, int32_t page_size, int64_t page_count,
                                PrefixIndex::Hash hash) {
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
                 static_cast<int32_t>(page_count), hash);
}

KvCache::Handle KvCache::open(std::optional<std::string> scope) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<Handle>(sequences_.size()));
    sequences_.emplace_back();
  }
  const Handle handle = unused_.back();
  unused_.pop_back();
  sequences_[handle].live = true;
  sequences_[handle].scope = std::move(scope);
  return handle;
}

void KvCache::close(Handle handle) {
  Sequence& sequence = sequences_[handle];
  // Last page first: the next sequence then gets the first pages first, and of cached pages those
  // that end a chain are the ones that were used longest ago.
  for (size_t i = sequence.pages.size(); i-- > 0;) release(sequence.pages[i]);
  sequence.pages.clear();
  sequence.published = 0;
  sequence.scope.reset();
  sequence.live = false;
  unused_.push_back(handle);
}

void KvCache::acquire(int32_t page) {
  if (pool_.references(page) == 0) {
    --unowned_;
    leaves_.erase({last_use_[page], page});
  }
  pool_.add_reference(page);
}

void KvCache::release(int32_t page) {
  if (!pool_.release(page)) return;
  if (!index_.contains(page)) return pool_.give_back(page);
  ++unowned_;
  last_use_[page] = ++clock_;
  if (index_.children(page) == 0) leaves_.insert({last_use_[page], page});
}

// Frees the cached page that was used longest ago among those that none continues.
void KvCache::evict() {
  const int32_t page = leaves_.begin()->second;
  leaves_.erase(leaves_.begin());
  const int32_t parent = index_.parent(page);
  index_.erase(page);
  pool_.give_back(page);
  --unowned_;
  if (parent != PrefixIndex::kNone && pool_.references(parent) == 0 &&
      index_.children(parent) == 0) {
    leaves_.insert({last_use_[parent], parent});
  }
}

void KvCache::drop_cached() {
  while (unowned_ > 0) evict();
}

KvCache::Prefix KvCache::find_prefix(const std::string& scope, const std::vector<int32_t>& tokens,
                                     int64_t limit) const {
  Prefix prefix;
  int32_t page = PrefixIndex::kNone;
  const int64_t most = std::min(limit, static_cast<int64_t>(tokens.size())) / page_size_;
  while (prefix.pages < most) {
    page = index_.find(page, scope, &tokens[static_cast<size_t>(prefix.pages) * page_size_]);
    if (page == PrefixIndex::kNone) break;
    ++prefix.pages;
    if (pool_.references(page) == 0) ++prefix.unowned;
  }
  return prefix;
}

int64_t KvCache::adopt_prefix(Handle handle, const std::vector<int32_t>& tokens, int64_t limit) {
  Sequence& sequence = sequences_[handle];
  if (!sequence.scope) return 0;
  int32_t page = PrefixIndex::kNone;
  const int64_t most = std::min(limit, static_cast<int64_t>(tokens.size())) / page_size_;
  while (sequence.published < most) {
    page = index_.find(page, *sequence.scope,
                       &tokens[static_cast<size_t>(sequence.published) * page_size_]);
    if (page == PrefixIndex::kNone) break;
    acquire(page);
    sequence.pages.push_back(page);
    ++sequence.published;
  }
  return sequence.published * page_size_;
}

void KvCache::publish(Handle handle, const std::vector<int32_t>& tokens, int64_t computed) {
  Sequence& sequence = sequences_[handle];
  if (!sequence.scope) return;
  for (int64_t& k = sequence.published; (k + 1) * page_size_ <= computed; ++k) {
    const int32_t parent = k == 0 ? PrefixIndex::kNone : sequence.pages[k - 1];
    const int32_t* page_tokens = &tokens[static_cast<size_t>(k) * page_size_];
    const int32_t page = index_.find(parent, *sequence.scope, page_tokens);
    if (page == PrefixIndex::kNone) {
      index_.insert(sequence.pages[k], parent, *sequence.scope, page_tokens);
    } else {
      acquire(page);
      release(sequence.pages[k]);
      sequence.pages[k] = page;
    }
  }
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
  if (missing > free_pages()) return false;
  std::vector<int32_t>& pages = sequences_[handle].pages;
  for (int64_t i = 0; i < missing; ++i) {
    if (pool_.free_count() == 0) {
      evict();
      ++evictions_;
    }
    pages.push_back(pool_.allocate());
  }
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

Status KvCache::check_owners(std::vector<int32_t>* owners) const {
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
      ++(*owners)[page];
    }
    std::sort(own.begin(), own.end());
    if (std::adjacent_find(own.begin(), own.end()) != own.end()) {
      return Status(Code::kInternal, fmt::format("Sequence {} holds a KV page twice.", handle));
    }
  }
  if (live + unused_.size() != sequences_.size()) {
    return Status(Code::kInternal, "A handle of the KV cache is neither live nor unused.");
  }
  return Status();
}

// What a sequence published is a chain in the index; the rest is in no list but its own.
Status KvCache::check_sequence(Handle handle) const {
  const Sequence& sequence = sequences_[handle];
  for (size_t k = 0; k < sequence.pages.size(); ++k) {
    const int32_t page = sequence.pages[k];
    const int32_t before = k == 0 ? PrefixIndex::kNone : sequence.pages[k - 1];
    const bool published = static_cast<int64_t>(k) < sequence.published;
    const bool right = published ? index_.contains(page) && index_.parent(page) == before
                                 : !index_.contains(page) && pool_.references(page) == 1;
    if (!right) {
      return Status(Code::kInternal,
                    fmt::format("KV page {} of sequence {} has a wrong place in the prefix index.",
                                page, handle));
    }
  }
  return Status();
}

Status KvCache::check_cached() const {
  int32_t unowned = 0;
  size_t leaves = 0;
  for (int32_t page = 0; page < pool_.size(); ++page) {
    if (!index_.contains(page) || pool_.references(page) != 0) continue;
    ++unowned;
    if (index_.children(page) != 0) continue;
    ++leaves;
    if (leaves_.count({last_use_[page], page}) == 0) {
      return Status(Code::kInternal, fmt::format("Cached KV page {} can never be freed.", page));
    }
  }
  if (unowned != unowned_ || leaves != leaves_.size()) {
    return Status(Code::kInternal,
                  fmt::format("{} cached KV pages, {} of them leaves, are counted as {} and {}.",
                              unowned, leaves, unowned_, leaves_.size()));
  }
  return Status();
}

Status KvCache::check_integrity() const {
  std::vector<int32_t> owners(pool_.size(), 0);
  FATHOM_RETURN_IF_ERROR(check_owners(&owners));
  std::vector<bool> kept(pool_.size());
  for (int32_t page = 0; page < pool_.size(); ++page) kept[page] = index_.contains(page);
  FATHOM_RETURN_IF_ERROR(pool_.check(owners, kept));
  FATHOM_RETURN_IF_ERROR(index_.check());
  for (size_t handle = 0; handle < sequences_.size(); ++handle) {
    FATHOM_RETURN_IF_ERROR(check_sequence(static_cast<Handle>(handle)));
  }
  return check_cached();
}

}  // namespace fathom
