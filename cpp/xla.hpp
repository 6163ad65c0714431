// The part of XLA's foreign-function interface (FFI, version 0.x) that a handler on the CPU needs: layouts of structs
// as the runtime fills them. Written down here so that the core needs no headers of XLA to be built; a test compares
// every offset with the headers of an installed jaxlib.
#pragma once
#include <cstddef>
#include <cstdint>

namespace dalembert::xla {

struct Extension {
  size_t size;
  int type;  // 1: metadata
  Extension* next;
};
struct Version {
  size_t size;
  Extension* extension;
  int major, minor;
};
struct Metadata {
  size_t size;
  Version version;
  uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Error;
struct ErrorArguments {
  size_t size;
  Extension* extension;
  const char* message;
  int code;
};
struct Api {
  size_t size;
  Extension* extension;
  Version version;
  const void* internal;
  Error* (*make_error)(ErrorArguments*);
};

constexpr int kFloat64 = 12, kInt64 = 5, kScalar = 3, kExecute = 3, kInvalid = 3, kInternal = 13;

struct Buffer {
  size_t size;
  Extension* extension;
  int type;
  void* data;
  int64_t rank;
  int64_t* dims;
};
struct Scalar {
  int type;
  void* value;
};
struct Name {
  const char* text;
  size_t length;
};
struct Arguments {
  size_t size;
  Extension* extension;
  int64_t count;
  int* types;
  void** values;
};
struct Attributes {
  size_t size;
  Extension* extension;
  int64_t count;
  int* types;
  Name** names;
  void** values;
};
struct Call {
  size_t size;
  Extension* extension;
  const Api* api;
  void* context;
  int stage;
  Arguments arguments, results;
  Attributes attributes;
};

}  // namespace dalembert::xla
