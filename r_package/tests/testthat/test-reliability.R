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
  result <- compute_confusion_matrices(cbind(annotations, truth = c("A", "B", "A")))
  expect_named(result, c("vs_gold", "pairwise"))
  expect_identical(names(result$vs_gold), c("m1", "m2"))
  expect_identical(result$vs_gold$m1, tab(1L, 0L, 1L, 1L))
  expect_identical(result$vs_gold$m2, tab(2L, 0L, 0L, 1L))
  expect_identical(result$pairwise, list("m2 vs m1" = tab(1L, 1L, 0L, 1L)))
})

test_that("without gold or a second model there is no table, not one of zeros", {
  skip_if_no_llamaherd()
  expect_null(compute_confusion_matrices(annotations)$vs_gold)
  expect_null(compute_confusion_matrices(annotations[1:3, ])$pairwise)
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
  result <- intercoder_reliability(list(annotations = annotations))
  expect_named(result, c("cohen", "krippendorff"))
  expect_equal(
    result$cohen,
    data.frame(
      model_a = "m2",
      model_b = "m1",
      kappa = 0.4,
      observed = 2 / 3,
      expected = 4 / 9
    )
  )
  expect_named(
    result$krippendorff,
    c("alpha", "per_item", "category_proportions", "alpha_exact")
  )
  expect_equal(result$krippendorff$per_item, c("1" = 1, "2" = 1, "3" = 0))
  expect_named(intercoder_reliability(annotations, "cohen"), "cohen")
  expect_named(intercoder_reliability(annotations, "krippendorff"), "krippendorff")
  expect_named(intercoder_reliability(annotations[1:3, ]), "krippendorff")
})

test_that("validate() gives both for several models", {
  skip_if_no_llamaherd()
  result <- validate(annotations, c("A", "B", "A"))
  expect_identical(
    unclass(result)[c("confusion", "reliability")],
    list(
      confusion = compute_confusion_matrices(annotations, c("A", "B", "A")),
      reliability = intercoder_reliability(annotations)
    )
  )
  expect_null(validate(annotations, include_reliability = FALSE)$reliability)
  only <- validate(annotations, include_confusion = FALSE, method = "cohen")
  expect_identical(names(only$reliability), "cohen")
})
