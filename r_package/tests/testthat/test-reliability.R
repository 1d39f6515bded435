annotations <- data.frame(
  sample_id = rep(1:3, 2),
  model_id = rep(c("m2", "m1"), each = 3),
  label = c("A", "B", "A", "A", "B", "B")
)

tab <- function(..., levels = c("A", "B")) {
  as.table(matrix(
    c(...),
    nrow = length(levels),
    byrow = TRUE,
    dimnames = list(levels, levels)
  ))
}

test_that("tables have the model's labels as rows", {
  skip_if_no_llamaherd()
  found <- compute_confusion_matrices(cbind(annotations, truth = c("A", "B", "A")))
  expect_named(found, c("vs_gold", "pairwise"))
  expect_identical(names(found$vs_gold), c("m1", "m2"))
  expect_identical(found$vs_gold$m1, tab(1L, 0L, 1L, 1L))
  expect_identical(found$vs_gold$m2, tab(2L, 0L, 0L, 1L))
  expect_identical(found$pairwise, list("m2 vs m1" = tab(1L, 1L, 0L, 1L)))
})

test_that("there are no tables of zeros", {
  skip_if_no_llamaherd()
  expect_null(compute_confusion_matrices(annotations)$vs_gold)
  expect_null(compute_confusion_matrices(cbind(annotations, truth = NA))$vs_gold)
  one <- compute_confusion_matrices(annotations[1:3, ])
  expect_null(one$pairwise)
  none <- compute_confusion_matrices(annotations[0, ])
  expect_null(none$pairwise)
  other <- rlang::set_names(annotations, c("text", "who", "code"))
  found <- compute_confusion_matrices(
    other,
    c("A", "B", "A"),
    sample_col = "text",
    model_col = "who",
    label_col = "code"
  )
  expect_identical(found$pairwise[[1]], tab(1L, 1L, 0L, 1L))
  expect_identical(found$vs_gold$m1, tab(1L, 0L, 1L, 1L))
})

test_that("gold comes in order, by name, as a factor or as a column", {
  skip_if_no_llamaherd()
  expected <- tab(1L, 0L, 1L, 1L)
  for (gold in list(
    c("A", "B", "A"),
    factor(c("A", "B", "A")),
    c("3" = "A", "2" = "B", "1" = "A"),
    "hers"
  )) {
    data <- cbind(annotations, hers = c("A", "B", "A"))
    expect_identical(compute_confusion_matrices(data, gold)$vs_gold$m1, expected)
  }
  levels <- compute_confusion_matrices(annotations, label_levels = c("B", "A", "C"))
  expect_identical(
    levels$pairwise[[1]],
    tab(1L, 0L, 0L, 1L, 1L, 0L, 0L, 0L, 0L, levels = c("B", "A", "C"))
  )
})

test_that("reliability has localLLM's shapes and irr's values", {
  skip_if_no_llamaherd()
  found <- intercoder_reliability(list(annotations = annotations))
  expect_named(found, c("cohen", "krippendorff"))
  expect_equal(
    found$cohen,
    data.frame(
      model_a = "m2",
      model_b = "m1",
      kappa = 0.4,
      observed = 2 / 3,
      expected = 4 / 9
    )
  )
  alpha <- found$krippendorff
  # 3 of the 6 codes are A and 3 are B; 2 coincidences differ, so alpha is 1 - 5 * 2 / 18.
  expect_equal(alpha$alpha, 1 - 5 * 2 / 18)
  expect_equal(alpha$alpha_exact, alpha$alpha)
  expect_equal(alpha$per_item, c("1" = 1, "2" = 1, "3" = 0))
  expect_equal(alpha$category_proportions, c(A = 0.5, B = 0.5))
  expect_named(intercoder_reliability(annotations, "cohen"), "cohen")
  expect_named(intercoder_reliability(annotations, "krippendorff"), "krippendorff")
  expect_named(intercoder_reliability(annotations[1:3, ]), "krippendorff")
})

test_that("three models without missing labels have irr's alpha beside the exact one", {
  skip_if_no_llamaherd()
  third <- transform(annotations[1:3, ], model_id = "m3", label = c("B", "B", "A"))
  alpha <- intercoder_reliability(rbind(annotations, third))$krippendorff
  # irr does not divide by m - 1 = 2: of 18 coincidences, 8 contain A and 10 contain B, and 8
  # differ.
  expect_equal(alpha$alpha, 1 - 17 * 8 / (18^2 - 8^2 - 10^2))
  expect_equal(alpha$alpha_exact, 1 - 8 * 4 / (9^2 - 4^2 - 5^2))
})

test_that("validate() gives both for several models", {
  skip_if_no_llamaherd()
  found <- validate(annotations, c("A", "B", "A"))
  expect_identical(
    unclass(found)[c("confusion", "reliability")],
    list(
      confusion = compute_confusion_matrices(annotations, c("A", "B", "A")),
      reliability = intercoder_reliability(annotations)
    )
  )
  expect_null(validate(annotations, include_reliability = FALSE)$reliability)
  only <- validate(annotations, include_confusion = FALSE, method = "cohen")
  expect_identical(names(only$reliability), "cohen")
})

test_that("what does not fit is refused", {
  skip_if_no_llamaherd()
  expect_refused({
    compute_confusion_matrices("a")
    compute_confusion_matrices(annotations, label_col = "code")
    compute_confusion_matrices(annotations, c("A", "B"))
    compute_confusion_matrices(annotations, label_levels = "A")
    intercoder_reliability(rbind(annotations, annotations[1, ]))
    intercoder_reliability(annotations, "fleiss")
    validate(annotations, include_confusion = FALSE, include_reliability = FALSE)
  })
})
