"""Search of options by Optuna: trials are trainings in processes of their own (`navrl tune`)."""
