"""What the page in Airflow shows: one model for each of its views, for people and for programs. Read without Spark."""
