#include "tools/train/idx_file.h"

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tools/train/gzip_testing.h"
#include "tools/train/limits.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

using ::rz::testing::Bytes;
using ::rz::testing::Gzip;
using ::rz::testing::IdxBytes;
using ::rz::testing::StatusIs;
using ::rz::testing::WriteBytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::TempDir;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;

const Bytes kSix = {1, 2, 3, 4, 5, 6};

TEST(GunzipTest, ReturnsWhatWasPacked) {
  Bytes large(1'000'000);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<uint8_t>(i * i >> 7);
  for (const Bytes& bytes : {Bytes{}, kSix, large}) {
    ASSERT_OK_AND_ASSIGN(const Bytes unpacked, Gunzip("f", Gzip(bytes), bytes.size()));
    EXPECT_EQ(unpacked, bytes);
  }
}

TEST(GunzipTest, NotGzip_NamesTheFirstBytes) {
  EXPECT_THAT(Gunzip("f", IdxBytes({6}, kSix), 100),
              StatusIs(kDataLoss,
                       "f: not a gzip file: expected 0x1f 0x8b at its start, found "
                       "0x00 0x00"));
  EXPECT_THAT(Gunzip("f", {}, 100), StatusIs(kDataLoss, HasSubstr("found 0 bytes in all")));
}

TEST(GunzipTest, EveryTruncation_IsDataLoss) {
  const Bytes packed = Gzip(kSix);
  for (size_t size = 0; size < packed.size(); ++size) {
    EXPECT_THAT(
        Gunzip("f", Bytes(packed.begin(), packed.begin() + static_cast<ptrdiff_t>(size)), 9),
        StatusIs(kDataLoss, HasSubstr("f: ")))
        << size;
  }
}

TEST(GunzipTest, ChecksumWrong_IsDataLoss) {
  Bytes packed = Gzip(kSix);
  packed[packed.size() - 8] ^= 1;
  EXPECT_THAT(Gunzip("f", packed, 100), StatusIs(kDataLoss, HasSubstr("incorrect data check")));
}

TEST(GunzipTest, BytesAfterTheStream_AreCounted) {
  Bytes packed = Gzip(kSix);
  packed.insert(packed.end(), {7, 8});
  EXPECT_THAT(Gunzip("f", packed, 100), StatusIs(kDataLoss, HasSubstr("found 2 further bytes")));
}

TEST(GunzipTest, LimitOnTheUnpackedSize) {
  EXPECT_OK(Gunzip("f", Gzip(kSix), 6));
  EXPECT_THAT(Gunzip("f", Gzip(kSix), 5),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("more than the 5 bytes")));
  // A bomb: 64 MiB of zeros in 64 KiB.
  EXPECT_THAT(Gunzip("f", Gzip(Bytes(size_t{64} << 20)), 1 << 20),
              StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(ParseIdxTest, ReadsLengthsAndElements) {
  ASSERT_OK_AND_ASSIGN(const IdxArray array, ParseIdx("f", IdxBytes({3, 1, 2}, kSix), 3));
  EXPECT_THAT(array.lengths, ElementsAre(3, 1, 2));
  EXPECT_EQ(array.elements, kSix);
}

TEST(ParseIdxTest, HeaderCutOff) {
  EXPECT_THAT(ParseIdx("f", {0, 0, 8}, 1),
              StatusIs(kDataLoss, "f: expected an IDX header of 8 bytes, found 3 bytes in all"));
}

TEST(ParseIdxTest, WrongMagicTypeOrDimensions_ShowBoth) {
  for (const size_t position : {0, 1, 2, 3}) {
    Bytes bytes = IdxBytes({6}, kSix);
    bytes[position] ^= 4;
    EXPECT_THAT(ParseIdx("f", bytes, 1),
                StatusIs(kDataLoss, AllOf(HasSubstr("expected IDX magic 0x00 0x00 0x08 0x01"),
                                          HasSubstr("found 0x0"))));
  }
  EXPECT_THAT(ParseIdx("f", IdxBytes({2, 3}, kSix), 1), StatusIs(kDataLoss));
}

TEST(ParseIdxTest, SizesThatDoNotFit_ShowBoth) {
  EXPECT_THAT(ParseIdx("f", IdxBytes({7}, kSix), 1),
              StatusIs(kDataLoss, "f: expected 7 bytes after the header, as it says, found 6"));
  EXPECT_THAT(ParseIdx("f", IdxBytes({5}, kSix), 1), StatusIs(kDataLoss));
  EXPECT_THAT(ParseIdx("f", IdxBytes({2, 2}, kSix), 2), StatusIs(kDataLoss));
  EXPECT_THAT(ParseIdx("f", IdxBytes({0, 6}, kSix), 2),
              StatusIs(kDataLoss, HasSubstr("dimension 1 has length 0")));
}

// 2^32 * 2^32 * ... wraps to small products in 64 bits: none may be taken for a fitting size.
TEST(ParseIdxTest, LengthsWhoseProductOverflows_AreDataLoss) {
  EXPECT_THAT(ParseIdx("f", IdxBytes({0xffffffff, 0xffffffff, 0xffffffff}, kSix), 3),
              StatusIs(kDataLoss));
  EXPECT_THAT(ParseIdx("f", IdxBytes({0x80000000, 0x80000000, 4}, {}), 3), StatusIs(kDataLoss));
}

TEST(ReadIdxGzipFileTest, FileMissing_IsNotFound) {
  EXPECT_THAT(ReadIdxGzipFile(TempDir() + "/none.gz", 1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none.gz: No such file")));
}

TEST(ReadIdxGzipFileTest, Directory_IsAnErrorWithTheSystemsReason) {
  EXPECT_THAT(ReadIdxGzipFile(TempDir(), 1),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("Is a directory")));
}

TEST(ReadIdxGzipFileTest, ReadsAFile) {
  const std::string path = TempDir() + "/six.gz";
  WriteBytes(path, Gzip(IdxBytes({6}, kSix)));
  ASSERT_OK_AND_ASSIGN(const IdxArray array, ReadIdxGzipFile(path, 1));
  EXPECT_EQ(array.elements, kSix);
}

TEST(ReadIdxGzipFileTest, FileAboveTheLimit_IsOutOfRange) {
  const std::string path = TempDir() + "/large.gz";
  WriteBytes(path, Bytes(kMaxCompressedBytes + 1));
  EXPECT_THAT(ReadIdxGzipFile(path, 1), StatusIs(absl::StatusCode::kOutOfRange));
  std::remove(path.c_str());
}

// Neither parser may crash, hang or accept what it should not, whatever the bytes: random bytes,
// and valid files with a few bytes changed.
TEST(IdxFuzzTest, RandomAndDamagedBytes) {
  const Bytes valid = IdxBytes({2, 3}, kSix);
  const Bytes packed = Gzip(valid);
  for (uint64_t round = 0; round < 20'000; ++round) {
    const RandomStream random(round, 0);
    Bytes noise(random.Below(0, 64));
    for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<uint8_t>(random.Bits(i + 1));
    if (noise.size() >= 2) {
      noise[0] = 0x1f;
      noise[1] = 0x8b;
    }
    (void)Gunzip("f", noise, 1000);
    (void)ParseIdx("f", noise, 3);

    Bytes damaged = packed;
    damaged[random.Below(100, damaged.size())] ^= static_cast<uint8_t>(1 + random.Below(101, 255));
    const absl::StatusOr<std::vector<uint8_t>> unpacked = Gunzip("f", damaged, 1000);
    // Time, operating system and flags of the gzip header may change without harm.
    if (unpacked.ok()) {
      EXPECT_EQ(*unpacked, valid);
    }

    Bytes array = valid;
    const size_t position = random.Below(102, 12);
    array[position] ^= static_cast<uint8_t>(1 + random.Below(103, 255));
    EXPECT_THAT(ParseIdx("f", array, 2), StatusIs(kDataLoss)) << position;
  }
}

}  // namespace
}  // namespace rz
