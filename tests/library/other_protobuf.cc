// A program that has the distribution's Protocol Buffers in itself, as some frameworks do, and
// shows them to all: descriptors of its own, one of a file that is named as one of ringzero's is on
// disk. It then uses ringzero (whole_library.c), before and after which its own protobuf works.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int WholeLibrary(int argc, char** argv);

namespace {

void UseOwn(const char* file_name) {
  google::protobuf::FileDescriptorProto file;
  file.set_name(file_name);
  file.set_package("other");
  file.add_message_type()->set_name("Message");
  std::string bytes = file.SerializeAsString();
  google::protobuf::FileDescriptorProto parsed;
  google::protobuf::DescriptorPool pool(google::protobuf::DescriptorPool::generated_pool());
  if (!parsed.ParseFromString(bytes) || pool.BuildFile(parsed) == nullptr) {
    std::fprintf(stderr, "the program's own protobuf is broken\n");
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  UseOwn("proto/config.proto");
  // Nobody has put ringzero's descriptors into this program's protobuf.
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const int result = WholeLibrary(argc, argv);
  UseOwn("ringzero/config.proto");
  if (pool->FindFileByName("ringzero/config.proto") != nullptr) {
    std::fprintf(stderr, "ringzero registers in the program's protobuf\n");
    return 1;
  }
  return result;
}
