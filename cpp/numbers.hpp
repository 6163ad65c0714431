// Numbers of a compiled model, counted: those that `Core.with_numbers` can set (group, index, entry), and those by
// which parameters_dual.hpp differentiates. Both count alike, but for poses: a joint base or a site is set by twelve
// numbers (R by columns, p) and moves in six ways (a twist along the axes of what carries it, about its origin:
// turning, shifting). src/dalembert/model/numbers.py knows the same groups.
#pragma once
#include <vector>
#include "model.hpp"

namespace dalembert {

enum class NumberGroup : int {
  joint,
  node,
  site,
  potential,
  force,
  constraint,
  relation,
  damping,
  spline,
  gravity,
  gear
};

// Where the derivatives by the numbers of a group are in one long row
struct NumberLayout {
  static constexpr int kJoint = 7;  // twist of the base, pitch
  static constexpr int kNode = 10;  // mass, first moment, second moment
  static constexpr int kSite = 6, kElement = 8, kGravity = 3;
  int node = 0, site = 0, element[3] = {}, relation = 0, damping = 0, gravity = 0, gear = 0, size = 0;
  std::vector<int> spline;  // per piece: six coefficients; then an area per piece

  NumberLayout() = default;
  explicit NumberLayout(const ModelData& M) {
    int at = kJoint * M.nj;
    auto take = [&at](int& place, size_t n) {
      place = at;
      at += int(n);
    };
    take(node, kNode * M.nodes.size());
    take(site, kSite * M.sites.size());
    const std::vector<Element>* families[3] = {&M.potentials, &M.forces, &M.constraints};
    for (int f = 0; f < 3; ++f) take(element[f], kElement * families[f]->size());
    take(relation, M.relation.size());
    take(damping, M.damping.size());
    take(gravity, kGravity);
    take(gear, M.force_gear.size());
    for (const SplineTable& s : M.splines) {
      spline.push_back(at);
      at += int(s.c.size() + s.area.size());
    }
    size = at;
  }

  // -1 where there is no such number
  int at(const ModelData& M, int group, int index, int entry) const {
    auto in = [&](int first, int each, size_t count) {
      return index >= 0 && size_t(index) < count && entry >= 0 && entry < each ? first + each * index + entry : -1;
    };
    switch (NumberGroup(group)) {
      case NumberGroup::joint: return in(0, kJoint, M.joints.size());
      case NumberGroup::node: return in(node, kNode, M.nodes.size());
      case NumberGroup::site: return in(site, kSite, M.sites.size());
      case NumberGroup::potential: return in(element[0], kElement, M.potentials.size());
      case NumberGroup::force: return in(element[1], kElement, M.forces.size());
      case NumberGroup::constraint: return in(element[2], kElement, M.constraints.size());
      case NumberGroup::relation: return index ? -1 : in(relation, int(M.relation.size()), 1);
      case NumberGroup::damping: return index ? -1 : in(damping, int(M.damping.size()), 1);
      case NumberGroup::gravity: return in(gravity, kGravity, 1);
      case NumberGroup::gear: return index ? -1 : in(gear, int(M.force_gear.size()), 1);
      case NumberGroup::spline:
        if (index < 0 || size_t(index) >= spline.size()) return -1;
        return entry >= 0 && size_t(entry) < M.splines[index].c.size() + M.splines[index].area.size()
                   ? spline[index] + entry
                   : -1;
    }
    return -1;
  }
};

// the number at a place of a model, to be set; nullptr where there is none
inline double* number_at(ModelData& M, int group, int index, int entry) {
  auto of = [&](auto& list) { return index >= 0 && size_t(index) < list.size() ? &list[index] : nullptr; };
  auto part = [&](double* x, int first, int n) {
    return entry >= first && entry < first + n ? x + entry - first : nullptr;
  };
  auto either = [](double* a, double* b) { return a ? a : b; };
  switch (NumberGroup(group)) {
    case NumberGroup::joint:
      if (Joint* j = of(M.joints)) return either(either(part(j->R0, 0, 9), part(j->p0, 9, 3)), part(&j->pitch, 12, 1));
      return nullptr;
    case NumberGroup::node:
      if (Node* n = of(M.nodes))
        return either(either(part(&n->m, 0, 1), part(n->c, 1, 3)), either(part(n->I, 4, 6), part(&n->mass, 10, 1)));
      return nullptr;
    case NumberGroup::site:
      if (Site* s = of(M.sites)) return either(part(s->R, 0, 9), part(s->p, 9, 3));
      return nullptr;
    case NumberGroup::potential:
      if (Element* e = of(M.potentials)) return part(e->par, 0, 8);
      return nullptr;
    case NumberGroup::force:
      if (Element* e = of(M.forces)) return part(e->par, 0, 8);
      return nullptr;
    case NumberGroup::constraint:
      if (Element* e = of(M.constraints)) return part(e->par, 0, 8);
      return nullptr;
    case NumberGroup::relation: return index ? nullptr : part(M.relation.data(), 0, int(M.relation.size()));
    case NumberGroup::damping: return index ? nullptr : part(M.damping.data(), 0, int(M.damping.size()));
    case NumberGroup::spline:
      if (SplineTable* s = of(M.splines))
        return either(part(s->c.data(), 0, int(s->c.size())),
                      part(s->area.data(), int(s->c.size()), int(s->area.size())));
      return nullptr;
    case NumberGroup::gravity: return index ? nullptr : either(part(M.Rg, 0, 9), part(&M.gz, 9, 1));
    case NumberGroup::gear: return index ? nullptr : part(M.force_gear.data(), 0, int(M.force_gear.size()));
  }
  return nullptr;
}

// How parameters enter: number `slot` of the layout changes by `factor` with parameter `parameter`
struct ParameterLinks {
  NumberLayout layout;
  int count = 0;  // parameters
  std::vector<int> slot, parameter;
  std::vector<double> factor;
  bool bodies_only = true;  // all of them are inertias or coefficients of damping

  // the inertias again, body by body: its parameters, and factor (NumberLayout::kNode, parameters)
  struct Body {
    int node;
    std::vector<int> parameter;
    std::vector<double> factor;
  };
  std::vector<Body> bodies;
  void group_bodies() {
    bodies.clear();
    for (size_t i = 0; i < slot.size(); ++i) {
      const int at = slot[i] - layout.node;
      if (at < 0 || slot[i] >= layout.site) continue;
      const int node = at / NumberLayout::kNode;
      Body* body = nullptr;
      for (Body& b : bodies)
        if (b.node == node) body = &b;
      if (!body) body = &bodies.emplace_back(Body{node, {}, {}});
      size_t c = 0;
      while (c < body->parameter.size() && body->parameter[c] != parameter[i]) ++c;
      if (c == body->parameter.size()) body->parameter.push_back(parameter[i]);
    }
    for (Body& b : bodies) {
      const size_t n = b.parameter.size();
      b.factor.assign(NumberLayout::kNode * n, 0.0);
      for (size_t i = 0; i < slot.size(); ++i) {
        const int entry = slot[i] - layout.node - NumberLayout::kNode * b.node;
        if (slot[i] < layout.node || slot[i] >= layout.site || entry < 0 || entry >= NumberLayout::kNode) continue;
        for (size_t c = 0; c < n; ++c)
          if (b.parameter[c] == parameter[i]) b.factor[entry * n + c] += factor[i];
      }
    }
  }

  // (row of the layout) -> row of parameters, added
  template <class T, class F> void add(const T* row, double* out, F value) const {
    for (size_t i = 0; i < slot.size(); ++i) out[parameter[i]] += factor[i] * value(row[slot[i]]);
  }
};

}  // namespace dalembert
