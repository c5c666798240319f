"""FoodCollector and VisualFoodCollector."""
