"""Public benchmark suites, made federated: FedBBOB, FedLS and FedMuJoCo."""
