"""Where facts come from: Kubernetes, Prometheus, raw expositions, rules, dashboards, or a bundle of all of them."""
