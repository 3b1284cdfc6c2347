// Bounds of what the training program accepts. Every length read from a file or a flag is held
// against one of these before memory is asked for.
#ifndef RINGZERO_TOOLS_TRAIN_LIMITS_H_
#define RINGZERO_TOOLS_TRAIN_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace rz {

// A gzip file of the data set, and what it unpacks to. Fashion-MNIST: 26 MB and 47,040,016 bytes.
inline constexpr size_t kMaxCompressedBytes = size_t{64} << 20;
inline constexpr size_t kMaxUnpackedBytes = size_t{256} << 20;

// Widths of a model, input and output included: how many, and how large each may be.
inline constexpr size_t kMinModelWidths = 2;
inline constexpr size_t kMaxModelWidths = 64;
inline constexpr int64_t kMaxModelWidth = 65536;

// Parameters of a model: 2^30 of them are 16 GiB of model states without sharding.
inline constexpr int64_t kMaxModelParameters = int64_t{1} << 30;

// A transformer's shape. Symbols are bytes or stand for some.
inline constexpr int64_t kMaxTransformerLayers = 256;
inline constexpr int64_t kMaxTransformerWidth = 16384;
inline constexpr int64_t kMaxTransformerContext = 4096;
inline constexpr int64_t kMaxVocabulary = 256;

// A text to train on. The King James Bible: 4,298,239 bytes.
inline constexpr size_t kMaxTextBytes = size_t{1} << 30;

inline constexpr int64_t kMaxGlobalBatch = 1 << 20;
inline constexpr int64_t kMaxSteps = int64_t{1} << 40;
inline constexpr int64_t kMaxEpochs = 1 << 20;
inline constexpr double kMaxHyperparameter = 1000;  // learning rate, weight decay

// Text that a model writes (--sample), in characters, and how.
inline constexpr int64_t kMaxSampleLength = 1 << 20;
inline constexpr double kMaxTemperature = 100;

// A report of an earlier run (--reference).
inline constexpr size_t kMaxReportBytes = size_t{16} << 20;

// Events of a rank in a trace (--trace), of 48 bytes here and some 200 in the file: the last few
// hundred steps of a model of some layers.
inline constexpr size_t kMaxTraceEvents = size_t{1} << 16;

// Of fp16's loss scale.
inline constexpr double kMaxLossScale = 4294967296;

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_LIMITS_H_
