"""Evidence: convert the findings of methods to measurements that are compared with thresholds."""
