# What all commands of this study share; read with `. ./env.sh` in this folder.
export FLWR_TELEMETRY_ENABLED=0          # Flower reports no usage
export FLWR_DISABLE_UPDATE_CHECK=1       # and asks for no new version
export FLWR_HOME="$PWD/flower"           # Flower keeps its files here, not in your home directory
export FLWR_SUPEREXEC_TASK_POLL_INTERVAL=0.5  # seconds; Flower waits a whole one before it starts a process
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
