// Reading the compiled description of a model (src/dalembert/model/compile.py) and checking it: a wrong index must not
// become a wild read.
#pragma once
#include <nanobind/nanobind.h>
#include <string>
#include <vector>
#include "model.hpp"

namespace dalembert {

// The families of elements in the order of ElementKind: the name of their list in a model, and their kinds
struct Family {
  const char* name;
  std::vector<Element> ModelData::* elements;
  std::vector<std::string> kinds;
};
const std::vector<Family>& families();

ModelData read_model(const nanobind::dict& description);

}  // namespace dalembert
