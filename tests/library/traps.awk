# Makes, of what nm prints of libraries, assembly that defines the same symbols of gRPC and Protocol
# Buffers: functions that end the program, and data of nothing.
#   nm -D --defined-only LIBRARY... | awk -f traps.awk
/ [TW] / && /google8protobuf|grpc/ && !seen[$3]++ {
  print ".globl \"" $3 "\"\n.type \"" $3 "\", @function\n\"" $3 "\": call abort@PLT"
}
/ [VDRB] / && /google8protobuf|grpc/ && !seen[$3]++ {
  data[++count] = $3
}
END {
  print ".data\n.balign 16"
  for (i = 1; i <= count; ++i) {
    print ".globl \"" data[i] "\"\n.type \"" data[i] "\", @object\n\"" data[i] "\": .fill 64"
  }
  print ".section .note.GNU-stack,\"\",@progbits"
}
