% SPDX-License-Identifier: BSD-3-Clause
% Digests of the bits of GNU Octave's linear algebra, one a line.
1;

function show (name, varargin)
  % Prints a name, and a hash of the bits of the results.
  bits = "";
  for x = varargin
    parts = double ([real(x{1}(:)); imag(x{1}(:))]);
    bits = [bits, reshape(num2hex (parts)', 1, [])];
  end
  printf ("%s %s\n", name, hash ("sha256", bits));
end

for n = [5, 100]
  a = mod (reshape ((1:n * n) .^ 2 * 1237, n, n), 2003) / 997 - 1;   % the same on every CPU
  for kind = 1:3
    if (kind == 2) a = a + 1i * a(end:-1:1, :); end
    if (kind == 3) a = single (a); end
    b = a(:, 1:3); m = a(:, 1:ceil (n / 2));
    s = a + a'; p = s + 5 * n * eye (n);
    id = @(name) sprintf ("%s_%d_%d", name, n, kind);
    show (id ("products"), a * m, a * b(:, 1), a' * b(:, 2), b(:, 1)' * b(:, 2));
    show (id ("solve"), a \ b, b' / a);
    show (id ("lstsq"), m \ b);
    show (id ("inv"), inv (a), pinv (m), det (a));
    [l, u, q] = lu (a);
    show (id ("lu"), l, u, q);
    show (id ("chol"), chol (p), p \ b);
    [q, r] = qr (a);
    show (id ("qr"), q, r);
    [q, r, e] = qr (m, 0);
    show (id ("qr_pivots"), q, r, e);
    [v, d] = eig (s);
    show (id ("eig_symmetric"), v, d);
    [v, d] = eig (a);
    show (id ("eig"), v, d);
    [v, d] = eig (s, p);
    show (id ("eig_generalised"), v, d);
    [u, w, v] = svd (m);
    show (id ("svd"), u, w, v, svd (a));
    [u, t] = schur (a);
    show (id ("schur"), u, t);
    [u, t] = hess (a);
    show (id ("hess"), u, t);
    show (id ("norms"), norm (a), norm (b(:, 1)), cond (a));
  end
end
