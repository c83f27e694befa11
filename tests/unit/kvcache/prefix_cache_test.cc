// Shared beginnings: what is found, what is kept, what goes first.
#include <gtest/gtest.h>

#include <numeric>

#include "kvcache/kv_cache.h"

namespace fathom {
namespace {

constexpr int64_t kAll = INT64_MAX;

KvCache make_cache(int64_t pages, PrefixIndex::Hash hash = PrefixIndex::default_hash) {
  KvLayout layout;
  layout.groups.push_back({"latent", KvGrowth::kPerToken, 1, 0, 100});
  return std::move(*KvCache::create(layout, 8, pages, hash));
}

std::vector<int32_t> text(int32_t first, int32_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

void expect_sound(const KvCache& cache) {
  const Status status = cache.check_integrity();
  EXPECT_TRUE(status.ok()) << status.message();
}

// A sequence that has computed all its tokens, from the cache as far as it goes.
KvCache::Handle compute(KvCache* cache, const std::vector<int32_t>& tokens,
                        const std::string& scope = "") {
  const KvCache::Handle handle = cache->open(scope);
  cache->adopt_prefix(handle, tokens, kAll);
  EXPECT_TRUE(cache->reserve(handle, static_cast<int64_t>(tokens.size())));
  cache->publish(handle, tokens, static_cast<int64_t>(tokens.size()));
  expect_sound(*cache);
  return handle;
}

int32_t found(const KvCache& cache, const std::vector<int32_t>& tokens,
              const std::string& scope = "", int64_t limit = kAll) {
  return cache.find_prefix(scope, tokens, limit).pages;
}

TEST(PrefixCache, FindsFullComputedPagesOnly) {
  KvCache cache = make_cache(8);
  const std::vector<int32_t> tokens = text(0, 30);
  const auto a = cache.open("");
  ASSERT_TRUE(cache.reserve(a, 30));
  EXPECT_EQ(found(cache, tokens), 0);
  cache.publish(a, tokens, 7);
  EXPECT_EQ(found(cache, tokens), 0);
  cache.publish(a, tokens, 17);
  EXPECT_EQ(found(cache, tokens), 2);
  cache.publish(a, tokens, 30);
  EXPECT_EQ(found(cache, tokens), 3);
  EXPECT_EQ(found(cache, text(0, 23)), 2);
  EXPECT_EQ(found(cache, tokens, "", 23), 2);
  EXPECT_EQ(found(cache, tokens, "", 7), 0);
  std::vector<int32_t> other = tokens;
  other[8] = 99;  // parts ways in the second page; the third's own tokens are equal
  EXPECT_EQ(found(cache, other), 1);
  expect_sound(cache);
}

TEST(PrefixCache, OwnersShareAndThenItStays) {
  KvCache cache = make_cache(8);
  const std::vector<int32_t> tokens = text(0, 24);
  const auto a = compute(&cache, tokens);
  const auto b = cache.open("");
  EXPECT_EQ(cache.adopt_prefix(b, tokens, 23), 16);
  EXPECT_EQ(cache.pages(b), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(cache.owned_pages(), 3);
  cache.close(a);
  EXPECT_EQ(cache.owned_pages(), 2);
  EXPECT_EQ(cache.cached_pages(), 1);
  EXPECT_EQ(cache.free_pages(), 6);
  expect_sound(cache);
  cache.close(b);
  EXPECT_EQ(cache.owned_pages(), 0);
  EXPECT_EQ(cache.cached_pages(), 3);
  EXPECT_EQ(cache.free_pages(), 8);
  const KvCache::Prefix prefix = cache.find_prefix("", tokens, kAll);
  EXPECT_EQ(prefix.pages, 3);
  EXPECT_EQ(prefix.unowned, 3);
  cache.drop_cached();
  EXPECT_EQ(found(cache, tokens), 0);
  expect_sound(cache);
}

TEST(PrefixCache, SaltsAndPrivateSequencesStayApart) {
  KvCache cache = make_cache(16);
  const std::vector<int32_t> tokens = text(0, 16);
  const auto a = compute(&cache, tokens, "one");
  EXPECT_EQ(found(cache, tokens, "one"), 2);
  EXPECT_EQ(found(cache, tokens, "two"), 0);
  EXPECT_EQ(found(cache, tokens, ""), 0);
  const auto b = cache.open();  // shares with nobody
  EXPECT_EQ(cache.adopt_prefix(b, tokens, kAll), 0);
  ASSERT_TRUE(cache.reserve(b, 16));
  cache.publish(b, tokens, 16);
  cache.close(b);
  EXPECT_EQ(cache.cached_pages(), 0);
  EXPECT_EQ(found(cache, tokens, ""), 0);
  cache.close(a);
  expect_sound(cache);
}

// Two sequences that computed the same at the same time end up with one copy.
TEST(PrefixCache, EqualPagesBecomeOne) {
  KvCache cache = make_cache(8);
  const std::vector<int32_t> tokens = text(0, 16);
  const auto a = cache.open("");
  const auto b = cache.open("");
  ASSERT_TRUE(cache.reserve(a, 16));
  ASSERT_TRUE(cache.reserve(b, 16));
  EXPECT_EQ(cache.owned_pages(), 4);
  cache.publish(a, tokens, 16);
  cache.publish(b, tokens, 16);
  EXPECT_EQ(cache.pages(b), cache.pages(a));
  EXPECT_EQ(cache.owned_pages(), 2);
  expect_sound(cache);
  cache.close(a);
  EXPECT_EQ(cache.owned_pages(), 2);
  cache.close(b);
  EXPECT_EQ(cache.cached_pages(), 2);
  expect_sound(cache);
}

TEST(PrefixCache, EvictsTheLongestUnusedLeafFirst) {
  KvCache cache = make_cache(6);
  const std::vector<int32_t> first = text(0, 24), second = text(100, 24);
  cache.close(compute(&cache, first));
  cache.close(compute(&cache, second));
  EXPECT_EQ(cache.cached_pages(), 6);
  const auto a = cache.open("");
  ASSERT_TRUE(cache.reserve(a, 8));
  EXPECT_EQ(found(cache, first), 2);  // its last page went, not its first
  EXPECT_EQ(found(cache, second), 3);
  EXPECT_EQ(cache.evictions(), 1u);
  ASSERT_TRUE(cache.reserve(a, 24));
  EXPECT_EQ(found(cache, first), 0);
  EXPECT_EQ(found(cache, second), 3);
  expect_sound(cache);
  EXPECT_FALSE(cache.reserve(a, 56));
  EXPECT_EQ(found(cache, second), 3);  // what does not succeed evicts nothing
  cache.close(a);
}

TEST(PrefixCache, UseKeepsAPageAlive) {
  KvCache cache = make_cache(6);
  const std::vector<int32_t> first = text(0, 24), second = text(100, 24);
  cache.close(compute(&cache, first));
  cache.close(compute(&cache, second));
  cache.close(compute(&cache, first));  // a hit
  const auto a = cache.open("");
  ASSERT_TRUE(cache.reserve(a, 24));
  EXPECT_EQ(found(cache, first), 3);
  EXPECT_EQ(found(cache, second), 0);
  cache.close(a);
  expect_sound(cache);
}

// Branches: a page goes only after those that continue it, whichever owner they had.
TEST(PrefixCache, AParentOutlivesItsChildren) {
  KvCache cache = make_cache(5);
  std::vector<int32_t> left = text(0, 16), right = text(0, 16);
  right[12] = 77;
  const auto a = compute(&cache, left);
  const auto b = compute(&cache, right);  // pages 0 and a second child of page 0
  EXPECT_EQ(cache.owned_pages(), 3);
  cache.close(a);
  EXPECT_EQ(cache.cached_pages(), 1);  // page 0 is b's too
  const auto c = cache.open("");
  ASSERT_TRUE(cache.reserve(c, 24));  // two free pages and left's second
  EXPECT_FALSE(cache.reserve(c, 25));
  EXPECT_EQ(found(cache, left), 1);
  EXPECT_EQ(found(cache, right), 2);
  cache.close(b);
  ASSERT_TRUE(cache.reserve(c, 32));
  EXPECT_EQ(found(cache, right), 1);
  ASSERT_TRUE(cache.reserve(c, 40));
  EXPECT_EQ(found(cache, right), 0);
  expect_sound(cache);
}

// Every hash is equal: tokens, scopes and parents are compared, so only the search gets longer.
TEST(PrefixCache, CollisionsNeverGiveWrongPages) {
  KvCache cache = make_cache(32, [](uint64_t, const void*, size_t) { return uint64_t{42}; });
  const std::vector<int32_t> first = text(0, 24), second = text(100, 24);
  const auto a = compute(&cache, first);
  const auto b = compute(&cache, second);
  const auto c = compute(&cache, first, "salt");
  // The second page of `first` after the first of `second`: both are cached, the pair is not.
  std::vector<int32_t> crossed(second.begin(), second.begin() + 8);
  crossed.insert(crossed.end(), first.begin() + 8, first.end());
  EXPECT_EQ(found(cache, first), 3);
  EXPECT_EQ(found(cache, second), 3);
  EXPECT_EQ(found(cache, crossed), 1);
  EXPECT_EQ(found(cache, text(50, 24)), 0);
  EXPECT_EQ(found(cache, second, "salt"), 0);
  const auto d = cache.open("salt");
  cache.adopt_prefix(d, first, kAll);
  EXPECT_EQ(cache.pages(d), cache.pages(c));
  EXPECT_NE(cache.pages(c), cache.pages(a));
  for (const auto handle : {a, b, c, d}) cache.close(handle);
  expect_sound(cache);
  cache.drop_cached();
  expect_sound(cache);
}

}  // namespace
}  // namespace fathom
