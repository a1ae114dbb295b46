"""The pages of `navrl watch`: what the trainings on this machine do at this moment."""
