"""Evidence: from what a method found to measurements that are compared with thresholds."""
