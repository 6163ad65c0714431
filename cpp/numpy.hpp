// NumPy's arrays without a detour: a call from Python reads and makes several small ones, and a conversion by way of
// the buffer protocol takes longer than a step of a small mechanism.
//
// Read and called is what NumPy keeps the same for compiled modules (the head of an array object, and functions by
// their number in its table), so that no header of it is needed; numpy_interface() compares it with an array made
// in Python, and where it does not fit everything goes the long way, through nanobind.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>

namespace dalembert {

namespace nb = nanobind;

struct NumpyHead {
  PyObject head;
  char* data;
  int ndim;
  Py_ssize_t *shape, *strides;
  PyObject *base, *type;
  int flags;
};
constexpr int kNumpyPlain = 0x0001 | 0x0100;  // contiguous in C order, aligned
constexpr int kNumpyWriteable = 0x0400;

struct NumpyInterface {
  bool known = false;
  PyTypeObject* array = nullptr;
  PyObject *float64 = nullptr, *boolean = nullptr;
  // of numbers: (dimensions, shape, type (stolen), in Fortran's order)
  PyObject* (*zeros)(int, const Py_ssize_t*, PyObject*, int) = nullptr;
  // around memory: (class, type (stolen), dimensions, shape, strides, data, flags, None)
  PyObject* (*around)(PyTypeObject*, PyObject*, int, const Py_ssize_t*, const Py_ssize_t*, void*, int,
                      PyObject*) = nullptr;
  int (*set_base)(PyObject*, PyObject*) = nullptr;  // (array, its owner (stolen))
};
inline NumpyInterface numpy_;  // filled by numpy_interface() when the module is imported

inline const NumpyHead& head_of(const PyObject* array) { return *reinterpret_cast<const NumpyHead*>(array); }

// the numbers of an array of doubles that can be read as it is, or null
inline const double* plain(PyObject* o) {
  if (!numpy_.known || Py_TYPE(o) != numpy_.array) return nullptr;
  const NumpyHead& a = head_of(o);
  if (a.type != numpy_.float64 || (a.flags & kNumpyPlain) != kNumpyPlain) return nullptr;
  static const double nothing = 0;
  return a.data ? reinterpret_cast<const double*>(a.data) : &nothing;
}

// those of a vector of n numbers, or null; `finite` asks for numbers that are
inline const double* plain(PyObject* o, size_t n, bool finite) {
  const double* x = plain(o);
  if (!x || head_of(o).ndim != 1 || head_of(o).shape[0] != Py_ssize_t(n)) return nullptr;
  if (finite) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += 0 * x[i];
    if (sum != 0) return nullptr;  // NaN
  }
  return x;
}

// An array of doubles that a function gets: as it is where possible, else as nanobind converts it.
class Array {
 public:
  using Converted = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
  Array() = default;
  bool take(nb::handle o) {
    const double* x = plain(o.ptr());
    if (!x) return false;
    const NumpyHead& a = head_of(o.ptr());
    data_ = x;
    ndim_ = size_t(a.ndim);
    size_ = 1;
    for (size_t i = 0; i < ndim_; ++i) size_ *= size_t(a.shape[i]);
    owner_ = nb::borrow(o);
    return true;
  }
  void take(Converted&& a) {
    converted_ = std::move(a);
    data_ = converted_.data();
    size_ = converted_.size();
    ndim_ = converted_.ndim();
  }
  const double* data() const { return data_; }
  size_t size() const { return size_; }
  size_t ndim() const { return ndim_; }
  size_t shape(size_t i) const {
    return owner_.is_valid() ? size_t(head_of(owner_.ptr()).shape[i]) : converted_.shape(i);
  }

 private:
  const double* data_ = nullptr;
  size_t size_ = 0, ndim_ = 0;
  nb::object owner_;
  Converted converted_;
};

// on a cache line, so that whole vectors are stored
inline double* aligned(double* p) { return reinterpret_cast<double*>((reinterpret_cast<uintptr_t>(p) + 63) / 64 * 64); }

// An array of zeros and where its numbers are. Small ones are NumPy's own; of large ones the pages come lazily.
constexpr size_t kSmallArray = 512;
inline nb::object make_array(std::initializer_list<size_t> shape, double** data) {
  constexpr int most = 4;
  Py_ssize_t sizes[most];
  size_t n = 1;
  int ndim = 0;
  for (size_t s : shape) {
    if (ndim < most) sizes[ndim] = Py_ssize_t(s);
    ++ndim;
    n *= s;
  }
  const bool direct = numpy_.known && ndim <= most;
  if (direct && n <= kSmallArray) {
    Py_INCREF(numpy_.float64);
    nb::object out = nb::steal(numpy_.zeros(ndim, sizes, numpy_.float64, 0));
    if (!out.is_valid()) throw nb::python_error();
    *data = reinterpret_cast<double*>(head_of(out.ptr()).data);
    return out;
  }
  double* p = static_cast<double*>(std::calloc(n + 9, sizeof(double)));
  if (!p) throw std::bad_alloc();
  nb::capsule owner(p, [](void* x) noexcept { std::free(x); });
  *data = aligned(p);
  if (!direct) return nb::cast(nb::ndarray<nb::numpy, double>(*data, shape.size(), shape.begin(), owner));
  Py_INCREF(numpy_.float64);
  nb::object out = nb::steal(
      numpy_.around(numpy_.array, numpy_.float64, ndim, sizes, nullptr, *data, kNumpyPlain | kNumpyWriteable, nullptr));
  if (!out.is_valid() || numpy_.set_base(out.ptr(), owner.release().ptr())) throw nb::python_error();
  return out;
}

// (n) truth values, all false
inline nb::object make_flags(size_t n, bool** data) {
  if (!numpy_.known) {
    bool* p = new bool[n]();
    nb::capsule owner(p, [](void* x) noexcept { delete[] static_cast<bool*>(x); });
    *data = p;
    return nb::cast(nb::ndarray<nb::numpy, bool>(p, {n}, owner));
  }
  const Py_ssize_t size = Py_ssize_t(n);
  Py_INCREF(numpy_.boolean);
  nb::object out = nb::steal(numpy_.zeros(1, &size, numpy_.boolean, 0));
  if (!out.is_valid()) throw nb::python_error();
  *data = reinterpret_cast<bool*>(head_of(out.ptr()).data);
  return out;
}

// Called once, when the module is imported.
inline void numpy_interface() {
  NumpyInterface found;
  nb::object numpy;
  try {
    numpy = nb::module_::import_("numpy");
  } catch (nb::python_error& e) {  // where the module is built only its types are read, and there may be no NumPy
    if (!e.matches(PyExc_ImportError)) throw;
    return;
  }
  nb::object table = nb::none();
  for (const char* name : {"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"}) try {
      table = nb::module_::import_(name).attr("_ARRAY_API");
      break;
    } catch (const nb::python_error&) {}
  if (table.is_none()) return;
  void** const api = static_cast<void**>(PyCapsule_GetPointer(table.ptr(), nullptr));
  if (!api) {
    PyErr_Clear();
    return;
  }
  found.array = reinterpret_cast<PyTypeObject*>(nb::object(numpy.attr("ndarray")).release().ptr());  // for ever
  found.float64 = nb::object(numpy.attr("dtype")("float64")).release().ptr();
  found.boolean = nb::object(numpy.attr("dtype")("bool")).release().ptr();
  found.zeros = reinterpret_cast<decltype(found.zeros)>(api[183]);
  found.around = reinterpret_cast<decltype(found.around)>(api[94]);
  found.set_base = reinterpret_cast<decltype(found.set_base)>(api[282]);
  // an array that was made in Python must look as expected
  const nb::object probe = numpy.attr("zeros")(nb::make_tuple(2, 3));
  const NumpyHead& a = head_of(probe.ptr());
  const auto address = nb::cast<uintptr_t>(probe.attr("ctypes").attr("data"));
  found.known = api[2] == found.array && Py_TYPE(probe.ptr()) == found.array &&
                reinterpret_cast<uintptr_t>(a.data) == address && a.ndim == 2 && a.shape[0] == 2 && a.shape[1] == 3 &&
                a.strides[0] == 24 && a.type == found.float64 && (a.flags & kNumpyPlain) == kNumpyPlain;
  numpy_ = found;
}

}  // namespace dalembert

namespace nanobind::detail {
template <> struct type_caster<dalembert::Array> {
  using Long = type_caster<dalembert::Array::Converted>;
  NB_TYPE_CASTER(dalembert::Array, Long::Name)
  template <class Flags> bool from_python(handle src, Flags flags, cleanup_list* cleanup) noexcept {
    if (value.take(src)) return true;
    Long other;
    if (!other.from_python(src, flags, cleanup)) return false;
    value.take(std::move(other.value));
    return true;
  }
};
}  // namespace nanobind::detail
