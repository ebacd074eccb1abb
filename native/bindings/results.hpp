// Results with names: a struct of a kernel becomes a Python class with read-only fields.
//
// Python reads `found.log_scale` where it would otherwise count the places of a tuple. nanobind writes the fields and
// their types into the stub `_native.pyi`, so the type checker sees them.
#pragma once
#include "arrays.hpp"
#include "chance.hpp"
#include "dtree.hpp"

namespace sharpdnf {

template <class Struct> class Result {
  public:
    Result(nb::module_ &m, const char *name, const char *doc) : type_(m, name, doc) {}

    // A number or a flag.
    template <class Base, class T> Result &field(const char *name, T Base::*member, const char *doc = "") {
        type_.def_prop_ro(name, [member](const Struct &self) -> T { return self.*member; }, doc);
        return *this;
    }

    // A vector as an array over the struct's own memory. Nothing is copied: the array keeps the struct alive.
    template <class Base, class T> Result &field(const char *name, std::vector<T> Base::*member, const char *doc = "") {
        return array<T>(name, [member](Struct &self) -> std::vector<T> & { return self.*member; }, doc);
    }

    // The same for memory that `get(self)` names; it has data() and size().
    template <class T, class Get> Result &array(const char *name, Get get, const char *doc = "") {
        const auto view = [get](Struct &self) {
            auto &&values = get(self);
            return Out<T>(values.data(), {values.size()});
        };
        type_.def_prop_ro(name, view, nb::rv_policy::reference_internal, doc);
        return *this;
    }

    // What a function makes of the struct.
    template <class Get> Result &value(const char *name, Get get, const char *doc = "") {
        type_.def_prop_ro(name, get, doc);
        return *this;
    }

    template <class Method, class... Extra> Result &method(const char *name, Method method, const Extra &...extra) {
        type_.def(name, method, extra...);
        return *this;
    }

    // Certified bounds of P and of 1 - P. The lower end of one is the upper end of the other.
    Result &bounds(Bounds Struct::*member) {
        value("log_lower", [member](const Struct &self) { return (self.*member).lower.template log_p<false>(); });
        value("log_upper", [member](const Struct &self) { return (self.*member).upper.template log_p<true>(); });
        value("log_complement_lower",
              [member](const Struct &self) { return (self.*member).upper.template log_q<false>(); });
        value("log_complement_upper",
              [member](const Struct &self) { return (self.*member).lower.template log_q<true>(); });
        return *this;
    }

  private:
    nb::class_<Struct> type_;
};

}  // namespace sharpdnf
