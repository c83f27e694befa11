// Corrupted and hostile safetensors files, indexes and folders: always a message, never a crash.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/fault/hostile_files.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using testing::byte_tensor;
using testing::expect_refusal;
using testing::HostileCase;
using testing::little_endian;
using testing::repeat;
using testing::safetensors_file;
using testing::TemporaryFolder;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

HostileCase single(const std::string& name, const std::string& content,
                   std::vector<std::string> expected) {
  expected.emplace_back(kSingle);
  return {name, {{kSingle, content}}, std::move(expected)};
}

// A file whose header is `header` and whose data has `data_bytes` bytes.
HostileCase header(const std::string& name, const std::string& header, size_t data_bytes,
                   std::vector<std::string> expected) {
  return single(name, safetensors_file(header, std::string(data_bytes, 'x')), std::move(expected));
}

// The header of one tensor "w" with these fields.
std::string entry(const std::string& fields) {
  return "{\"w\":{" + fields + "}}";
}
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return entry("\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets);
}

TEST(HostileSafetensors, Lengths) {
  const std::string good = safetensors_file({byte_tensor("w", 4)});
  const std::string cut_size = std::to_string(good.size() - 1) + " bytes";
  for (const HostileCase& hostile : {
           single("empty", "", {"not a safetensors file", "0 bytes"}),
           single("seven bytes", "1234567", {"not a safetensors file"}),
           single("only a length", little_endian(1000, 8), {"wrong header length"}),
           single("length 2^64 - 1", little_endian(~uint64_t{0}, 8) + "{}",
                  {"wrong header length"}),
           single("length 2^63", little_endian(uint64_t{1} << 63, 8) + "{}",
                  {"wrong header length"}),
           single("length of one too many", little_endian(3, 8) + "{}", {"wrong header length"}),
           single("length zero", little_endian(0, 8) + "{}", {"malformed header"}),
           single("git lfs pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
                  {"git lfs pull"}),
           single("html page", "<!DOCTYPE html><html>404</html>", {"wrong header length"}),
           single("truncated by one", good.substr(0, good.size() - 1),
                  {"truncated file", "tensor w", cut_size}),
           single("truncated in the header", good.substr(0, 20), {"wrong header length"}),
           single("one byte too many", good + "x", {"bytes after the last tensor w"}),
       }) {
    expect_refusal(hostile);
  }
}

TEST(HostileSafetensors, HeaderJson) {
  const std::string field = "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":";
  for (const HostileCase& hostile : {
           header("garbage", "{\x01\x02\x03", 0, {"malformed header", "byte"}),
           header("array", "[1,2]", 0, {"malformed header"}),
           header("cut", "{\"w\":{\"dtype\":\"U8\",\"shape\":[1", 0,
                  {"malformed header at or after tensor w"}),
           header("two documents", "{}{}", 0, {"malformed header"}),
           header("invalid UTF-8", "{\"\xff\xfe\":1}", 0, {"malformed header"}),
           header("NUL padding", std::string("{}\0\0", 4), 0, {"malformed header"}),
           header("comment", "{/* */}", 0, {"malformed header"}),
           header("array bomb", "{\"w\":" + repeat("[", 2'000'000), 0, {"nested"}),
           header("object bomb", repeat("{\"w\":", 500'000), 0, {"nested"}),
           header("number bomb", "{\"w\":" + repeat("9", 1'000'000) + "}", 0, {"malformed"}),
           header("deep shape", entry("\"U8\"", "[[[1]]]", "[0,1]"), 1, {"nested", "w"}),
           header("tensor twice", "{\"w\":" + field + "[0,1]},\"w\":" + field + "[1,2]}}", 2,
                  {"duplicate tensor w"}),
           header("dtype twice",
                  entry("\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"),
                  1, {"tensor w", "dtype twice"}),
           header("entry is a string", "{\"w\":\"U8\"}", 0, {"malformed entry of tensor w"}),
           header("entry is an array", "{\"w\":[1]}", 0, {"malformed entry of tensor w"}),
       }) {
    expect_refusal(hostile);
  }
  expect_refusal({"no tensors", {{kSingle, safetensors_file("{}", "")}}, {"no tensors"}});
  expect_refusal({"only metadata",
                  {{kSingle, safetensors_file("{\"__metadata__\":{\"a\":\"b\"}}", "")}},
                  {"no tensors"}});
}

TEST(HostileSafetensors, Fields) {
  for (const HostileCase& hostile : {
           header("no dtype", entry("\"shape\":[1],\"data_offsets\":[0,1]"), 1,
                  {"tensor w", "no dtype"}),
           header("no shape", entry("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), 1,
                  {"tensor w", "no shape"}),
           header("no offsets", entry("\"dtype\":\"U8\",\"shape\":[1]"), 1,
                  {"tensor w", "data_offsets"}),
           header("unknown dtype", entry("\"F4\"", "[2]", "[0,1]"), 1,
                  {"element type of tensor w", "F4"}),
           header("dtype is a number", entry("8", "[1]", "[0,1]"), 1, {"tensor w", "no dtype"}),
           header("negative dimension", entry("\"U8\"", "[-1]", "[0,1]"), 1,
                  {"tensor w", "negative dimension"}),
           header("fraction", entry("\"U8\"", "[1.5]", "[0,1]"), 1,
                  {"tensor w", "not a whole number"}),
           header("dimension 2^64", entry("\"U8\"", "[18446744073709551616]", "[0,1]"), 1,
                  {"tensor w"}),
           header("dimension 2^63", entry("\"U8\"", "[9223372036854775808]", "[0,1]"), 1,
                  {"tensor w"}),
           header("product overflow", entry("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0,
                  {"impossible shape of tensor w"}),
           header("byte overflow", entry("\"F32\"", "[4611686018427387904]", "[0,0]"), 0,
                  {"impossible shape of tensor w"}),
           header("zero hides overflow",
                  entry("\"U8\"", "[0,4611686018427387904,4611686018427387904]", "[0,0]"), 0,
                  {"impossible shape of tensor w"}),
           header("a hundred dimensions", entry("\"U8\"", "[1" + repeat(",1", 99) + "]", "[0,1]"),
                  1, {"tensor w", "more than 64 dimensions"}),
           header("three offsets", entry("\"U8\"", "[1]", "[0,1,2]"), 1,
                  {"tensor w", "two data_offsets"}),
           header("million offsets", entry("\"U8\"", "[1]", "[0" + repeat(",0", 1'000'000) + "]"),
                  1, {"tensor w"}),
           header("negative offset", entry("\"U8\"", "[1]", "[-1,0]"), 1,
                  {"tensor w", "whole numbers"}),
           header("text offset", entry("\"U8\"", "[1]", "[\"0\",\"1\"]"), 1,
                  {"tensor w", "whole numbers"}),
           header("end before begin", entry("\"U8\"", "[1]", "[1,0]"), 1,
                  {"wrong byte range of tensor w", "[1, 0]"}),
           header("size and shape differ", entry("\"BF16\"", "[3]", "[0,4]"), 4,
                  {"wrong byte range of tensor w", "6 bytes for BF16 [3]"}),
       }) {
    expect_refusal(hostile);
  }
}

// Two tensors "a" and "b" of four bytes each, with these ranges.
std::string pair_header(const std::string& a, const std::string& b) {
  return "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + a +
         "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + b + "}}";
}

TEST(HostileSafetensors, Layout) {
  for (const HostileCase& hostile : {
           header("same place", pair_header("[0,4]", "[0,4]"), 4,
                  {"overlapping tensor b", "where a ends"}),
           header("partial overlap", pair_header("[0,4]", "[3,7]"), 7,
                  {"overlapping tensor b", "[3, 7]"}),
           header("hole at the start", pair_header("[1,5]", "[5,9]"), 9,
                  {"hole in the data before tensor a"}),
           header("hole in the middle", pair_header("[0,4]", "[5,9]"), 9,
                  {"hole in the data before tensor b"}),
           header("past the end", pair_header("[0,4]", "[100,104]"), 8,
                  {"out-of-range offsets of tensor b"}),
           header("near 2^64", pair_header("[0,4]", "[18446744073709551611,18446744073709551615]"),
                  8, {"out-of-range offsets of tensor b"}),
           header("truncated", pair_header("[0,4]", "[4,8]"), 6,
                  {"truncated file", "tensor b", "1 of 2 tensors"}),
           header("all cut", pair_header("[0,4]", "[4,8]"), 0,
                  {"truncated file", "tensor a", "2 of 2 tensors"}),
       }) {
    expect_refusal(hostile);
  }
}

TEST(HostileSafetensors, ManyOffendersAndStrangeNames) {
  const std::string bad = "\":{\"dtype\":\"X\",\"shape\":[],\"data_offsets\":[0,0]}";
  std::string many = "{";
  for (int i = 0; i < 100'000; ++i) many += (i > 0 ? ",\"t" : "\"t") + std::to_string(i) + bad;
  for (const HostileCase& hostile : {
           header("many offenders", many + "}", 0, {"(100000 problems)", "t0", "and 99000 more"}),
           header("control characters", "{\"\\u001b[2J\\n\\u0000" + bad + "}", 0,
                  {"\\x1b[2J\\x0a\\x00"}),
           header("ten megabytes of name", "{\"" + std::string(10'000'000, 'n') + bad + "}", 0,
                  {"(10000000 bytes)"}),
           header("no name", "{\"" + bad + "}", 0, {"element type"}),
       }) {
    expect_refusal(hostile);
  }
}

TEST(HostileSafetensors, HeaderOfMoreThanTheLimitIsNotRead) {
  const TemporaryFolder folder;
  const fs::path file = folder.write(kSingle, little_endian(100'000'001, 8) + "{");
  fs::resize_file(file, 200'000'000);  // sparse
  expect_refusal(folder.path(), "large header", {"wrong header length", "100000000", kSingle});
}

TEST(HostileFolder, ThingsThatAreNotFiles) {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / kSingle;
  fs::create_directory(model);
  expect_refusal(folder.path(), "folder", {kSingle, "a folder"});
  fs::remove(model);
  fs::create_symlink(folder.path(), model);
  expect_refusal(folder.path(), "link to a folder", {kSingle, "a folder"});
  fs::remove(model);
  fs::create_symlink("nowhere", model);
  expect_refusal(folder.path(), "dangling link", {kSingle, "a link to nothing"});
  fs::remove(model);
  fs::create_symlink(kSingle, model);
  expect_refusal(folder.path(), "link to itself", {kSingle});
  fs::remove(model);
  ASSERT_EQ(::mkfifo(model.c_str(), 0600), 0);
  expect_refusal(folder.path(), "pipe", {kSingle, "a device or pipe"});
  fs::remove(model);
  fs::create_symlink("/dev/zero", model);
  expect_refusal(folder.path(), "device", {kSingle, "a device or pipe"});
  fs::remove(model);
  fs::create_directory(folder.path() / kIndex);
  expect_refusal(folder.path(), "index is a folder", {kIndex});
  fs::remove(folder.path() / kIndex);
  ASSERT_EQ(::mkfifo((folder.path() / kIndex).c_str(), 0600), 0);
  expect_refusal(folder.path(), "index is a pipe", {kIndex});
}

// Two good shards s1 (tensor a) and s2 (tensor b) under the given index.
HostileCase indexed(const std::string& name, const std::string& index,
                    std::vector<std::string> expected) {
  return {name,
          {{kIndex, index},
           {"s1", safetensors_file({byte_tensor("a", 4)})},
           {"s2", safetensors_file({byte_tensor("b", 4)})}},
          std::move(expected)};
}
std::string weight_map(const std::string& entries) {
  return "{\"weight_map\":{" + entries + "}}";
}

TEST(HostileIndex, Json) {
  for (const HostileCase& hostile : {
           indexed("empty", "", {"malformed index", kIndex}),
           indexed("garbage", "weights", {"malformed index", kIndex}),
           indexed("array", "[]", {"malformed index", kIndex}),
           indexed("no map", "{\"metadata\":{\"total_size\":8}}",
                   {"malformed index", "weight_map"}),
           indexed("map is a list", "{\"weight_map\":[\"s1\"]}", {"malformed index", "weight_map"}),
           indexed("map is a string", "{\"weight_map\":\"s1\"}", {"malformed index", "weight_map"}),
           indexed("empty map", weight_map(""), {"malformed index", "at least one tensor"}),
           indexed("two maps", "{\"weight_map\":{\"a\":\"s1\"},\"weight_map\":{\"b\":\"s2\"}}",
                   {"weight_map twice"}),
           indexed("tensor twice", weight_map("\"a\":\"s1\",\"b\":\"s2\",\"a\":\"s1\""),
                   {"duplicate tensor a", kIndex}),
           indexed("number for a file", weight_map("\"a\":1,\"b\":\"s2\""),
                   {"weight_map entry of tensor a"}),
           indexed("list for a file", weight_map("\"a\":[\"s1\"],\"b\":\"s2\""),
                   {"weight_map entry of tensor a"}),
           indexed("nesting bomb", "{\"weight_map\":" + repeat("{\"a\":", 100'000),
                   {"malformed index", "nested"}),
       }) {
    expect_refusal(hostile);
  }
}

TEST(HostileIndex, Files) {
  for (const HostileCase& hostile : {
           indexed("parent folder", weight_map("\"a\":\"../s1\",\"b\":\"s2\""),
                   {"forbidden shard name for tensor a"}),
           indexed("absolute", weight_map("\"a\":\"/etc/passwd\",\"b\":\"s2\""),
                   {"tensor a", "/etc/passwd"}),
           indexed("backslash", weight_map("\"a\":\"..\\\\s1\",\"b\":\"s2\""),
                   {"forbidden shard name for tensor a"}),
           indexed("NUL", weight_map("\"a\":\"s1\\u0000\",\"b\":\"s2\""),
                   {"forbidden shard name for tensor a"}),
           indexed("dot dot", weight_map("\"a\":\"..\",\"b\":\"s2\""),
                   {"forbidden shard name for tensor a"}),
           indexed("long", weight_map("\"a\":\"" + std::string(5000, 's') + "\",\"b\":\"s2\""),
                   {"tensor a"}),
           indexed("absent shard", weight_map("\"a\":\"s1\",\"b\":\"s3\""),
                   {"missing file s3", "(b)"}),
           indexed("the index itself", weight_map("\"a\":\"" + std::string(kIndex) + "\""),
                   {"wrong header length"}),
           indexed("swapped", weight_map("\"a\":\"s2\",\"b\":\"s1\""),
                   {"another shard than the index says a", "another shard than the index says b"}),
           indexed("absent tensor", weight_map("\"a\":\"s1\",\"b\":\"s2\",\"c\":\"s2\""),
                   {"its shard lacks c", "s2"}),
           indexed("unlisted tensor", weight_map("\"a\":\"s1\",\"x\":\"s2\""),
                   {"index does not list b in s2", "its shard lacks x"}),
       }) {
    expect_refusal(hostile);
  }
  const std::string index = weight_map("\"a\":\"s1\",\"b\":\"s2\"");
  HostileCase twice =
      indexed("same tensor in two shards", index, {"duplicate tensor a in s2", "s1 too"});
  twice.files[2].second = safetensors_file({byte_tensor("a", 4), byte_tensor("b", 4)});
  expect_refusal(twice);
  HostileCase cut = indexed("one shard truncated", index, {"truncated file", "b in s2"});
  cut.files[2].second.pop_back();
  expect_refusal(cut);
}

TEST(HostileIndex, NumberedSetsWithoutIndex) {
  const std::string shard = safetensors_file({byte_tensor("a", 4)});
  expect_refusal({"incomplete",
                  {{"model-00002-of-00003.safetensors", shard}},
                  {"model-00001-of-00003", "2 missing"}});
  expect_refusal({"huge", {{"model-00001-of-99999.safetensors", shard}}, {"99998 missing"}});
  expect_refusal({"zero", {{"model-00000-of-00000.safetensors", shard}}, {"not complete"}});
  expect_refusal(
      {"two sets",
       {{"model-00001-of-00001.safetensors", shard}, {"other-00001-of-00001.safetensors", shard}},
       {"2 sets"}});
}

}  // namespace
}  // namespace fathom
