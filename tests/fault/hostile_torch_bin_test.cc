// Corrupted and hostile pytorch_model.bin files: zip tricks, damaged pickles, impossible tensors.
#include <gtest/gtest.h>

#include "tests/fault/hostile_files.h"
#include "weights/checkpoint.h"

namespace fathom {
namespace {

using testing::expect_refusal;
using testing::HostileCase;
using testing::little_endian;
using testing::repeat;
using testing::torch_file;
using testing::zip_file;
using testing::ZipPart;
namespace pickle = testing::pickle;

constexpr const char* kBin = "pytorch_model.bin";

HostileCase bin(const std::string& name, const std::string& content,
                std::vector<std::string> expected) {
  expected.emplace_back(kBin);
  return {name, {{kBin, content}}, std::move(expected)};
}

// A torch file whose tensor "w" has the value that `opcodes` would make.
HostileCase value(const std::string& name, const std::string& opcodes,
                  std::vector<std::string> expected) {
  return bin(name, torch_file(pickle::dict({{"good", pickle::tensor()}, {"w", opcodes}})),
             std::move(expected));
}

HostileCase whole_pickle(const std::string& name, const std::string& opcodes,
                         std::vector<std::string> expected) {
  return bin(name, torch_file(opcodes), std::move(expected));
}

const std::string kGoodPickle = pickle::dict({{"w", pickle::tensor()}});

TEST(HostileTorchBin, TheBuilderMakesGoodFiles) {
  const testing::TemporaryFolder folder;
  folder.write(kBin, torch_file(kGoodPickle));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  ASSERT_NE(checkpoint->find("w"), nullptr);
  EXPECT_EQ(checkpoint->find("w")->shape, std::vector<int64_t>{2});
}

TEST(HostileTorchBin, Containers) {
  const std::string good = torch_file(kGoodPickle);
  const ZipPart data{"m/data.pkl", kGoodPickle};
  const ZipPart storage{"m/data/0", std::string(8, 'x')};
  const auto with = [&](const ZipPart& part) { return zip_file({data, storage, part}); };
  for (const HostileCase& hostile : {
           bin("empty", "", {"0 bytes"}),
           bin("garbage", "these are not weights", {"neither zip nor pickle"}),
           bin("git lfs pointer", "version https://git-lfs.github.com/spec/v1\n", {"git lfs pull"}),
           bin("bare pickle", kGoodPickle, {"torch before 1.6", "torch.load"}),
           bin("truncated", good.substr(0, good.size() / 2), {"truncated"}),
           bin("without its last byte", good.substr(0, good.size() - 1), {"truncated"}),
           bin("directory only", "PK\x05\x06" + std::string(18, '\0'), {"zip directory"}),
           bin("without data.pkl", zip_file({storage}), {"without data.pkl"}),
           bin("data.pkl too deep", zip_file({{"a/b/data.pkl", kGoodPickle}}),
               {"without data.pkl"}),
           bin("two data.pkl", with({"n/data.pkl", kGoodPickle}), {"more than one data.pkl"}),
           bin("entry outside", with({"../../etc/passwd", "x"}), {"lies outside"}),
           bin("TorchScript", with({"m/constants.pkl", "x"}), {"TorchScript"}),
           bin("big endian", with({"m/byteorder", "big"}), {"byte order", "big"}),
           bin("byte order of a megabyte", with({"m/byteorder", std::string(1'000'000, 'b')}),
               {"byteorder"}),
           bin("same name twice", with({"m/data/0", "x"}), {"m/data/0 twice"}),
           bin("deflated", with({"m/data/1", "xxxx", 8}), {"m/data/1", "compressed"}),
           bin("unknown method", with({"m/data/1", "xxxx", 99}), {"m/data/1", "compressed"}),
           bin("encrypted", with({"m/data/1", "xxxx", 0, 1}), {"m/data/1", "encrypted"}),
           bin("size beyond the file", with({"m/data/1", "xxxx", 0, 0, 1'000'000}), {"m/data/1"}),
           bin("overlapping entries",
               zip_file({data,
                         {"m/data/0", std::string(8, 'x'), 0, 0, 100},
                         {"m/data/1", std::string(200, 'x')}}),
               {"m/data/0 and m/data/1 overlap"}),
           bin("local header of another entry", with({"m/data/1", "x", 0, 0, -1, 0}), {"m/data/1"}),
           bin("local header elsewhere", with({"m/data/1", "x", 0, 0, -1, 4'000'000'000}),
               {"m/data/1"}),
           bin("local header differs", with({"m/data/1", "x", 0, 0, -1, -1, "m/data/longer"}),
               {"m/data/1"}),
           bin("oversized pickle", torch_file(std::string(33u << 20, 'N')), {"data.pkl", "bytes"}),
       }) {
    expect_refusal(hostile);
  }
}

TEST(HostileTorchBin, Zip64Lies) {
  const std::string good = torch_file(kGoodPickle);
  // A zip64 end record that claims `entries` entries, and a locator that says it is at `where`.
  const auto zip64 = [&](uint64_t entries, uint64_t where) {
    const std::string record = "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) +
                               little_endian(45, 2) + std::string(8, '\0') +
                               little_endian(entries, 8) + little_endian(entries, 8) +
                               little_endian(1'000, 8) + little_endian(0, 8);
    const std::string body = good.substr(0, good.size() - 22);
    return body + record + "PK\x06\x07" + little_endian(0, 4) +
           little_endian(where == 0 ? body.size() : where, 8) + little_endian(1, 4) + "PK\x05\x06" +
           std::string(4, '\0') + std::string(12, '\xff') + std::string(2, '\0');
  };
  expect_refusal(bin("2^60 entries", zip64(uint64_t{1} << 60, 0), {"zip directory"}));
  expect_refusal(bin("a million entries", zip64(1'000'000, 0), {"zip directory"}));
  expect_refusal(bin("locator past the end", zip64(4, uint64_t{1} << 62), {"zip directory"}));
}

TEST(HostileTorchBin, Tensors) {
  using T = pickle::Tensor;
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::vector<int64_t> ones(65, 1);
  for (const HostileCase& hostile : {
           value("absent storage", pickle::tensor(T{.key = "9"}),
                 {"absent data of tensor w", "data/9"}),
           value("storage key is a path", pickle::tensor(T{.key = "../version"}),
                 {"tensor w", "data/../version"}),
           value("storage too small", pickle::tensor(T{.elements = 3}),
                 {"size of the data of tensor w"}),
           value("storage of another type", pickle::tensor(T{.storage = "HalfStorage"}),
                 {"tensor w", "F16"}),
           value("storage of 2^62", pickle::tensor(T{.elements = kHuge}),
                 {"size of the data of tensor w"}),
           value("negative storage", pickle::tensor(T{.elements = -2}),
                 {"at tensor w", "-2 elements"}),
           value("offset past the end", pickle::tensor(T{.offset = 1}),
                 {"tensor outside of its data w"}),
           value("offset 2^62", pickle::tensor(T{.offset = kHuge}),
                 {"tensor outside of its data w"}),
           value("negative offset", pickle::tensor(T{.offset = -1}), {"at tensor w", "offset"}),
           value("shape too large", pickle::tensor(T{.shape = {3}}),
                 {"tensor outside of its data w"}),
           value("negative shape", pickle::tensor(T{.shape = {-2}}), {"at tensor w", "shape"}),
           value("shape overflow", pickle::tensor(T{.shape = {kHuge, 8}, .stride = {8, 1}}),
                 {"impossible shape of tensor w"}),
           value("stride 0", pickle::tensor(T{.shape = {2}, .stride = {0}}), {"strided view w"}),
           value("transposed", pickle::tensor(T{.shape = {2, 2}, .stride = {1, 2}}),
                 {"strided view w"}),
           value("no strides", pickle::tensor(T{.stride = {}}),
                 {"at tensor w", "differ in length"}),
           value("many dimensions", pickle::tensor(T{.shape = ones, .stride = ones}),
                 {"at tensor w", "64"}),
           value("complex", pickle::tensor(T{.storage = "ComplexFloatStorage"}),
                 {"at tensor w", "ComplexFloatStorage"}),
       }) {
    expect_refusal(hostile);
  }
}

TEST(HostileTorchBin, DamagedPickles) {
  const std::string tensor = pickle::tensor();
  for (const HostileCase& hostile : {
           whole_pickle("empty", "", {"ends before its STOP"}),
           whole_pickle("protocol 0", "(dp0\n.", {"protocol 2 to 5"}),
           whole_pickle("protocol 9", "\x80\x09}.", {"protocol 9"}),
           whole_pickle("without STOP", kGoodPickle.substr(0, kGoodPickle.size() - 1),
                        {"ends before its STOP"}),
           whole_pickle("bytes after STOP", kGoodPickle + "x", {"follow the end"}),
           whole_pickle("STOP at once", "\x80\x02.", {"0 values"}),
           whole_pickle("two values", "\x80\x02}}.", {"2 values"}),
           whole_pickle("open mark", "\x80\x02}(.", {"leaves"}),
           whole_pickle("POP of nothing", std::string("\x80\x02") + "0.", {"not there"}),
           whole_pickle("POP through a mark", "\x80\x02}(0", {"not there"}),
           whole_pickle("no mark", "\x80\x02}u.", {"mark"}),
           whole_pickle("memo of nothing", std::string("\x80\x02q\0", 4), {"not there"}),
           whole_pickle("unknown memo", "\x80\x02h\x07.", {"value 7"}),
           whole_pickle("key without value", "\x80\x02}(" + pickle::text("w") + "u.",
                        {"without a value"}),
           whole_pickle("items into nothing", "\x80\x02(NNu.", {"not a dict"}),
           whole_pickle("items into a list", "\x80\x02]" + pickle::text("w") + "Ns.",
                        {"not a dict"}),
           whole_pickle("a tensor alone", "\x80\x02" + tensor + ".", {"found a tensor"}),
           whole_pickle("a list of tensors", "\x80\x02]" + tensor + "a.", {"found a list"}),
           whole_pickle("number as key", "\x80\x02}K\x01" + tensor + "s.",
                        {"entry without a name"}),
           whole_pickle("name twice", pickle::dict({{"w", tensor}, {"w", tensor}}),
                        {"duplicate tensor w"}),
           value("string persistent id", pickle::text("storage") + "Q",
                 {"at tensor w", "storage tuple"}),
           value("empty persistent id", ")Q", {"at tensor w", "storage tuple"}),
           value("tensor of a tensor",
                 pickle::call("torch._utils", "_rebuild_tensor_v2", tensor + "NNNNN"),
                 {"at tensor w", "not a storage"}),
           value("tensor of one argument", pickle::call("torch._utils", "_rebuild_tensor_v2", "N"),
                 {"at tensor w", "1 arguments"}),
           value("parameter of nothing", pickle::call("torch._utils", "_rebuild_parameter", "NNN"),
                 {"at tensor w", "not a tensor"}),
           value("a number", "K\x01", {"not a tensor w", "an integer"}),
           value("wrapped", "}" + pickle::text("inner") + tensor + "s",
                 {"not a tensor w", "a dict"}),
       }) {
    expect_refusal(hostile);
  }
  expect_refusal({"no tensors", {{kBin, torch_file("\x80\x02}.")}}, {"no tensors"}});
}

TEST(HostilePickle, WouldRunCode) {
  const std::string command = pickle::text("touch /tmp/owned");
  const std::string strings = pickle::text("os") + pickle::text("system");
  const std::string dict_type = pickle::global("collections", "OrderedDict");
  for (const HostileCase& hostile : {
           value("os.system", pickle::call("os", "system", command), {"at tensor w", "os.system"}),
           value("posix.system", pickle::call("posix", "system", command),
                 {"at tensor w", "posix.system"}),
           value("eval", pickle::call("builtins", "eval", command),
                 {"at tensor w", "builtins.eval"}),
           value("exec", pickle::call("__builtin__", "exec", command),
                 {"at tensor w", "__builtin__.exec"}),
           value("getattr", pickle::call("builtins", "getattr", strings),
                 {"at tensor w", "builtins.getattr"}),
           value("import", pickle::call("builtins", "__import__", command),
                 {"at tensor w", "__import__"}),
           value("Popen", pickle::call("subprocess", "Popen", command),
                 {"at tensor w", "subprocess.Popen"}),
           value("runpy", pickle::call("runpy", "_run_code", command),
                 {"at tensor w", "runpy._run_code"}),
           value("torch.load", pickle::call("torch", "load", command),
                 {"at tensor w", "torch.load"}),
           value("torch.hub", pickle::call("torch.hub", "load", command),
                 {"at tensor w", "torch.hub.load"}),
           value("name with a dot",
                 pickle::call("torch._utils", "_rebuild_tensor_v2.__globals__", command),
                 {"at tensor w", "__globals__"}),
           value("module with a space", pickle::global("torch ", "FloatStorage"), {"at tensor w"}),
           value("STACK_GLOBAL", strings + "\x93(" + command + "tR", {"at tensor w", "os.system"}),
           value("STACK_GLOBAL of numbers", "K\x01K\x02\x93", {"at tensor w", "not a string"}),
           value("INST", "(" + command + "ios\nsystem\n", {"at tensor w", "INST"}),
           value("OBJ", "(" + dict_type + "o", {"at tensor w", "OBJ"}),
           value("NEWOBJ", dict_type + ")\x81", {"at tensor w", "NEWOBJ"}),
           value("NEWOBJ_EX", dict_type + ")}\x92", {"at tensor w", "NEWOBJ_EX"}),
           value("EXT1", "\x82\x01", {"at tensor w", "EXT"}),
           value("PERSID", "Pstorage\n", {"at tensor w", "PERSID"}),
           value("BUILD on a tensor", pickle::tensor() + "}b",
                 {"at tensor w", "sets attributes of a tensor"}),
           value("BUILD from a tuple", pickle::ordered_dict() + ")b",
                 {"at tensor w", "sets attributes from a tuple"}),
           value("call of a string", pickle::text("os.system") + "(" + command + "tR",
                 {"at tensor w", "not a function"}),
           value("call of a storage type",
                 pickle::call("torch", "FloatStorage", pickle::number(1 << 30)),
                 {"at tensor w", "not a function"}),
           value("OrderedDict of pairs", pickle::call("collections", "OrderedDict", "]"),
                 {"at tensor w", "OrderedDict"}),
       }) {
    expect_refusal(hostile);
  }
}

TEST(HostilePickle, Bombs) {
  std::string doubling =
      std::string("\x80\x02)q\0", 5);  // each tuple holds the one before twice: 2^100 leaves
  for (int i = 0; i < 100; ++i) doubling += std::string("h\0h\0\x86q\0", 7);
  std::string flood = "\x80\x02(";
  for (uint64_t slot = 0; slot < 2'100'000; ++slot)
    flood += "Nr" + little_endian(slot * 2027, 4) + "0";
  const std::string one_in_memo("\x80\x02(Nq\0", 6);
  for (const HostileCase& hostile : {
           whole_pickle("doubling tuples", doubling + ".", {"leaves"}),
           whole_pickle("two million values", flood, {"2000000 values"}),
           whole_pickle("memo flood", "\x80\x04N" + repeat("\x94", 5'000'000) + ".",
                        {"remembers more than"}),
           whole_pickle("stack flood", one_in_memo + repeat(std::string("h\0", 2), 2'000'000),
                        {"stack exceeds"}),
           whole_pickle("mark flood", "\x80\x02" + repeat("(", 5'000'000), {"nests too deep"}),
           whole_pickle("tuple in tuple", "\x80\x02)" + repeat("\x85", 1'500'000) + ".",
                        {"found a tuple"}),
           whole_pickle("list in list",
                        "\x80\x02" + repeat("]", 900'000) + repeat("a", 899'999) + ".",
                        {"found a list"}),
           whole_pickle("list in itself", std::string("\x80\x02]q\0h\0a.", 9), {"found a list"}),
           whole_pickle(
               "dict in itself",
               std::string("\x80\x02}q\0", 5) + pickle::text("w") + std::string("h\0s.", 4),
               {"not a tensor w", "a dict"}),
           value("BINUNICODE of 4 GB", "X\xff\xff\xff\xff", {"at tensor w", "4294967295 bytes"}),
           value("BINUNICODE8 of 2^63", "\x8d" + little_endian(uint64_t{1} << 63, 8),
                 {"at tensor w", "bytes"}),
           value("LONG1 of 255 bytes", "\x8a\xff" + std::string(255, 'x'),
                 {"at tensor w", "255 bytes"}),
           value("LONG4 of 2 GB", "\x8b\xff\xff\xff\x7f", {"at tensor w", "2147483647 bytes"}),
           value("BINBYTES8 of 2^62", "\x8e" + little_endian(uint64_t{1} << 62, 8),
                 {"at tensor w", "0x8e"}),
           value("BYTEARRAY8", "\x96" + little_endian(uint64_t{1} << 62, 8),
                 {"at tensor w", "0x96"}),
           value("frame of 2^63", "\x95" + little_endian(uint64_t{1} << 63, 8),
                 {"at tensor w", "frame"}),
           value("endless global", "c" + std::string(100'000, 'm'),
                 {"at tensor w", "does not end"}),
       }) {
    expect_refusal(hostile);
  }
}

}  // namespace
}  // namespace fathom
