# SPDX-License-Identifier: BSD-3-Clause
"""Fits models of scikit-learn to fixed data, and prints a digest of what each has found."""
import hashlib
import warnings

import numpy as np
from sklearn import (cluster, cross_decomposition, decomposition, discriminant_analysis,
                     gaussian_process, kernel_ridge, linear_model, mixture, neural_network, svm)

warnings.filterwarnings("ignore")      # some do not converge in so few steps
random = np.random.Generator(np.random.PCG64(3))
x = random.integers(-1000, 1000, (300, 20)) / 500.0
y = x @ (random.integers(-1000, 1000, 20) / 500.0) + random.integers(-100, 100, 300) / 1000.0
label = (y > 0).astype(int)

MODELS = [
    (linear_model.LinearRegression(), (x, y), "coef_"),
    (linear_model.Ridge(), (x, y), "coef_"),
    (linear_model.Lasso(alpha=0.01), (x, y), "coef_"),
    (linear_model.LogisticRegression(), (x, label), "coef_"),
    (decomposition.PCA(5), (x,), "components_"),
    (decomposition.NMF(4, init="random", random_state=0, max_iter=100), (abs(x),), "components_"),
    (discriminant_analysis.LinearDiscriminantAnalysis(), (x, label), "coef_"),
    (gaussian_process.GaussianProcessRegressor(random_state=0), (x[:100], y[:100]), "alpha_"),
    (mixture.GaussianMixture(3, random_state=0), (x,), "means_"),
    (cluster.KMeans(4, n_init=2, random_state=0), (x,), "cluster_centers_"),
    (neural_network.MLPRegressor(hidden_layer_sizes=(30,), random_state=0, max_iter=40), (x, y),
     None),
    (cross_decomposition.PLSRegression(3), (x, y), "coef_"),
    (kernel_ridge.KernelRidge(kernel="rbf"), (x, y), "dual_coef_"),
    (svm.SVR(), (x, y), "dual_coef_"),
]
for model, data, found in MODELS:
    model.fit(*data)
    numbers = [getattr(model, found)] if found else model.coefs_
    print(type(model).__name__,
          hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in numbers)).hexdigest())
