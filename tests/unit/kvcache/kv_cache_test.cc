// Pages, lists and references of KvCache.
#include "kvcache/kv_cache.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

KvLayout layout_of(KvGrowth growth) {
  KvLayout layout;
  layout.groups.push_back({"latent", KvGrowth::kPerToken, 1, 0, 100});
  layout.groups.push_back({"second", growth, 4, 128, 10});
  return layout;
}

KvCache make_cache(int32_t page_size, int64_t pages) {
  return std::move(*KvCache::create(layout_of(KvGrowth::kPerToken), page_size, pages));
}

TEST(KvCache, RefusesWhatItDoesNotSupport) {
  const KvLayout plain = layout_of(KvGrowth::kPerToken);
  for (const int page_size : {0, 1, 7, 9, 24, 256, -16}) {
    EXPECT_EQ(KvCache::create(plain, page_size, 4).error().code(), Code::kInvalidArgument);
  }
  for (const int64_t pages : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    EXPECT_EQ(KvCache::create(plain, 16, pages).error().code(), Code::kInvalidArgument);
  }
  EXPECT_FALSE(KvCache::create(KvLayout(), 16, 4));
  for (const KvGrowth growth : {KvGrowth::kPerStride, KvGrowth::kWindow, KvGrowth::kPerSequence}) {
    const auto refused = KvCache::create(layout_of(growth), 16, 4);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kUnsupported);
    EXPECT_NE(refused.error().message().find("\"second\""), std::string::npos);
  }
}

TEST(KvCache, CountsBytesOfAllGroups) {
  EXPECT_EQ(KvCache::page_bytes(layout_of(KvGrowth::kPerToken), 16), 110u * 16);
}

TEST(KvCache, ReservesAllOrNothing) {
  KvCache cache = make_cache(8, 4);
  const auto a = cache.open();
  EXPECT_TRUE(cache.reserve(a, 9));  // two pages
  EXPECT_EQ(cache.pages(a), (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(cache.reserve(a, 16));  // fits what it has
  EXPECT_EQ(cache.free_pages(), 2);
  EXPECT_EQ(cache.pages_missing(a, 17), 1);
  const auto b = cache.open();
  EXPECT_FALSE(cache.reserve(b, 17));
  EXPECT_TRUE(cache.pages(b).empty());
  EXPECT_EQ(cache.free_pages(), 2);
  EXPECT_TRUE(cache.reserve(b, 16));
  EXPECT_FALSE(cache.reserve(a, 17));
  cache.close(b);
  EXPECT_TRUE(cache.reserve(a, 17));
  EXPECT_TRUE(cache.check_integrity().ok());
  cache.close(a);
  EXPECT_EQ(cache.free_pages(), 4);
  EXPECT_TRUE(cache.check_integrity().ok());
}

TEST(KvCache, PagesForDoesNotOverflow) {
  const KvCache cache = make_cache(128, 4);
  EXPECT_EQ(cache.pages_for(INT64_MAX), INT64_MAX / 128 + 1);
  EXPECT_EQ(cache.pages_for(0), 0);
}

TEST(KvCache, WritesOneTablePerGroup) {
  KvCache cache = make_cache(8, 6);
  const auto a = cache.open();
  const auto b = cache.open();
  ASSERT_TRUE(cache.reserve(a, 16));
  ASSERT_TRUE(cache.reserve(b, 1));
  std::vector<PageTable> tables;
  cache.append_to(a, &tables);
  cache.append_to(b, &tables);
  ASSERT_EQ(tables.size(), 2u);
  for (const PageTable& table : tables) {
    EXPECT_EQ(table.pages, (std::vector<int32_t>{0, 1, 2}));
    EXPECT_EQ(table.begin, (std::vector<int32_t>{0, 2, 3}));
  }
}

TEST(PagePool, CheckSeesEveryKindOfDamage) {
  PagePool pool(3);
  const int32_t page = pool.allocate();
  const std::vector<bool> none(3, false);
  EXPECT_TRUE(pool.check({1, 0, 0}, none).ok());
  EXPECT_FALSE(pool.check({0, 0, 0}, none).ok());  // leaked
  EXPECT_FALSE(pool.check({2, 0, 0}, none).ok());  // an owner without a reference
  EXPECT_FALSE(pool.check({1, 1, 0}, none).ok());  // owned, but free
  pool.add_reference(page);
  EXPECT_TRUE(pool.check({2, 0, 0}, none).ok());
  EXPECT_FALSE(pool.release(page));
  EXPECT_TRUE(pool.release(page));
  EXPECT_FALSE(pool.check({0, 0, 0}, none).ok());  // neither owned nor free
  EXPECT_TRUE(pool.check({0, 0, 0}, {true, false, false}).ok());
  pool.give_back(page);
  EXPECT_EQ(pool.free_count(), 3);
  EXPECT_TRUE(pool.check({0, 0, 0}, none).ok());
  EXPECT_FALSE(pool.check({0, 0, 0}, {true, false, false}).ok());  // kept, but free
}

}  // namespace
}  // namespace fathom
